//! Defects that are put into the world on purpose, to show that the properties can fail.

/// A defect of the world or of the loop that a property must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlantedFault {
    /// EC2 ignores the client token, or it is not sent.
    TokenDropped,
    /// `state.json` is written whatever its version.
    SwapIgnored,
    /// An agent begins without its number in head.
    FenceNotBumped,
    /// The loser of a swap carries out its effects.
    LoserKeepsWriting,
    /// The loser of a swap leaves the machine that it launched.
    LoserLeaves,
    /// The reconciler after a crash does not repeat the effects.
    EffectsOnce,
    /// A machine counts as alive from its launch on.
    HeartbeatImagined,
    /// An agent that retries a failure leaves it in head.
    FailureKept,
    /// What is given back stays reserved.
    ReleaseForgotten,
    /// A late release ends whatever is reserved by then.
    ReleaseUnnumbered,
    /// Another job counts as done while it runs.
    SuccessImagined,
    /// The turn of a member counts as come while an earlier one is unfinished.
    TurnImagined,
}

impl PlantedFault {
    /// Whether it only shows where a reconciler that will lose its swap goes on.
    pub(crate) const fn is_lost_by_reduction(self) -> bool {
        matches!(self, Self::SwapIgnored | Self::LoserKeepsWriting | Self::LoserLeaves | Self::ReleaseUnnumbered)
    }
}
