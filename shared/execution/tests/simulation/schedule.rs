//! The schedule: mostly one run a tick; but runs are lost, late or doubled, or act when it is too late.

use std::cell::RefCell;
use std::rc::Rc;

use model::id::ResourceId;

use crate::account::SimulatedAccount;
use crate::fault::Fault;
use crate::session::UnderWay;

/// Events of an account besides its runs.
pub(crate) trait Scheduled {
    /// The longest delay of a run, in seconds.
    const RUN_LATE_MAX: i64;

    /// Before the run of a tick.
    fn begin_tick(&mut self);

    /// A run begins to observe.
    fn begin_run(&mut self, _now: i64) {}

    /// After the run of a tick.
    fn end_tick(&mut self);

    /// A colleague intervenes between an observation and its action: rarely, but only if an action follows.
    fn meddle(&mut self, interfered: &[ResourceId]);
}

/// Simulates an account for so many ticks.
pub(crate) fn live(account: SimulatedAccount, ticks: i64) -> SimulatedAccount {
    // A run has timeouts by tokio's clock. Here that clock stands still: no event advances it.
    let clock = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(clock) => clock,
        Err(error) => unreachable!("a runtime without threads or I/O: {error}"),
    };
    let _clock = clock.enter();
    let account = Rc::new(RefCell::new(account));
    let mut slow = None;
    for _ in 0..ticks {
        account.borrow_mut().begin_tick();
        slow = tick(&account, slow);
        account.borrow_mut().end_tick();
    }
    drop(slow);
    match Rc::try_unwrap(account) {
        Ok(account) => account.into_inner(),
        Err(_) => unreachable!("no run is left"),
    }
}

/// The runs of one tick. Takes the one that observed in the tick before, and returns the one that will act in the next.
fn tick(account: &Rc<RefCell<SimulatedAccount>>, slow: Option<UnderWay>) -> Option<UnderWay> {
    let occurs = |fault, now| account.borrow_mut().faults.occurs(fault, now);
    if let Some(slow) = slow {
        slow.finish();
    }
    let clock = account.borrow().clock;
    let now = clock + 7;
    if occurs(Fault::RunLost, now) {
        return None;
    }
    let late = occurs(Fault::RunLate, now);
    let now = if late { clock + account.borrow_mut().owners.between(20, SimulatedAccount::RUN_LATE_MAX) } else { now };
    account.borrow_mut().begin_run(now);
    let doubled = occurs(Fault::RunDoubled, now);
    let mut run = UnderWay::begin(account, now);
    if !run.look() {
        return None;
    }
    if doubled {
        let mut other = UnderWay::begin(account, now + 1);
        if other.look() {
            run.finish_both(other);
        } else {
            run.finish();
        }
    } else if occurs(Fault::RunSlow, now) {
        return Some(run);
    } else {
        let interfered = run.session.interfered.take();
        account.borrow_mut().meddle(&interfered);
        run.finish();
    }
    None
}
