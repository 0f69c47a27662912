//! Active runs: futures that are polled from effect to effect.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use super::{Phase, Session};
use crate::account::SimulatedAccount;

/// The most polls of a run: beyond that it waits for nothing.
const POLLS_MAX: u32 = 1_000_000;

/// An active run.
pub(crate) struct UnderWay {
    pub(crate) session: Rc<Session>,
    life: Pin<Box<dyn Future<Output = ()>>>,
    is_over: bool,
    polls: u32,
}

impl UnderWay {
    pub(crate) fn begin(account: &Rc<RefCell<SimulatedAccount>>, now: i64) -> Self {
        let session = Rc::new(Session::begin(account, now));
        let life = Box::pin(Rc::clone(&session).live());
        Self { session, life, is_over: false, polls: 0 }
    }

    /// Continues until its next effect.
    fn poll(&mut self) {
        if self.is_over {
            return;
        }
        self.polls += 1;
        assert!(self.polls < POLLS_MAX, "a run waits for ever");
        let is_done = self.life.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        self.is_over = is_done || self.session.is_cut.get();
    }

    /// Continues until it has decided. Returns whether it does anything then.
    pub(crate) fn look(&mut self) -> bool {
        while !self.is_over && self.session.phase.get() == Phase::Looks {
            self.poll();
        }
        !self.is_over
    }

    /// Continues to its end, or to where it is cut off.
    pub(crate) fn finish(mut self) {
        self.session.phase.set(Phase::Acts);
        while !self.is_over {
            self.poll();
        }
    }

    /// Two runs at once that take turns.
    pub(crate) fn finish_both(mut self, mut other: Self) {
        self.session.phase.set(Phase::Acts);
        other.session.phase.set(Phase::Acts);
        while !self.is_over || !other.is_over {
            self.poll();
            other.poll();
        }
    }
}
