//! The schedule: mostly one run a tick; but runs are lost or late, come twice, or act when it is too late.

use std::cell::RefCell;
use std::rc::Rc;

use model::id::ResourceId;

use crate::account::SimulatedAccount;
use crate::fault::Fault;
use crate::session::UnderWay;

/// What happens in an account besides its runs.
pub(crate) trait Scheduled {
    /// So many seconds late a run may be.
    const RUN_LATE_MAX: i64;

    /// Before the run of a tick.
    fn begin_tick(&mut self);

    /// A run begins to look.
    fn begin_run(&mut self, _now: i64) {}

    /// After the run of a tick.
    fn end_tick(&mut self);

    /// A colleague comes between a look and its act: rarely, but then where something is about to be done.
    fn meddle(&mut self, tempting: &[ResourceId]);
}

/// Lives an account for so many ticks.
pub(crate) fn live(account: SimulatedAccount, ticks: i64) -> SimulatedAccount {
    // What a run may wait for has a limit in time, by tokio's clock. Here that clock stands still: nothing turns it.
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

/// The runs of one tick. Takes the one that looked in the tick before, and gives the one that will act in the next.
fn tick(account: &Rc<RefCell<SimulatedAccount>>, slow: Option<UnderWay>) -> Option<UnderWay> {
    let strikes = |fault, now| account.borrow_mut().faults.strikes(fault, now);
    if let Some(slow) = slow {
        slow.finish();
    }
    let clock = account.borrow().clock;
    let now = clock + 7;
    if strikes(Fault::RunLost, now) {
        return None;
    }
    let late = strikes(Fault::RunLate, now);
    let now = if late { clock + account.borrow_mut().owners.between(20, SimulatedAccount::RUN_LATE_MAX) } else { now };
    account.borrow_mut().begin_run(now);
    let doubled = strikes(Fault::RunDoubled, now);
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
    } else if strikes(Fault::RunSlow, now) {
        return Some(run);
    } else {
        let tempting = run.session.tempting.take();
        account.borrow_mut().meddle(&tempting);
        run.finish();
    }
    None
}
