//! The states of a stack in which `CloudFormation` accepts an update, and the way out of the others (`CloudFormation` user guide,
//! "Understand CloudFormation stack creation events" and "Troubleshooting CloudFormation").

use model::foreign_text::shell_word;

/// A stack that cannot be updated now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackNotReady {
    pub problem: String,
    /// The step to take first.
    pub advice: String,
}

/// True while an operation on the stack is not over.
#[must_use]
pub fn is_in_progress(status: &str) -> bool {
    status.ends_with("_IN_PROGRESS")
}

/// True if the last operation on the stack did what it was asked for.
#[must_use]
pub fn is_complete(status: &str) -> bool {
    matches!(status, "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE")
}

/// Accepts a stack that can be updated: one whose last operation is over and was completed, or undone.
///
/// # Errors
/// For every other state, what to do.
pub fn check_updatable(stack: &str, status: &str) -> Result<(), StackNotReady> {
    let word = shell_word(stack);
    let advice = match status {
        _ if is_complete(status) => return Ok(()),
        "UPDATE_ROLLBACK_COMPLETE" | "IMPORT_ROLLBACK_COMPLETE" => return Ok(()),
        "REVIEW_IN_PROGRESS" => {
            "it has a change set that nobody has carried out: carry it out, or delete the stack".to_owned()
        }
        _ if is_in_progress(status) => format!(
            "another operation is under way; run the command again after it: aws cloudformation describe-stack-events --stack-name {word}"
        ),
        "UPDATE_ROLLBACK_FAILED" => format!(
            "its last update could not be undone; correct what failed, then: aws cloudformation continue-update-rollback --stack-name {word}"
        ),
        "UPDATE_FAILED" => format!(
            "its last update stopped midway; undo it first: aws cloudformation rollback-stack --stack-name {word}"
        ),
        _ => format!(
            "CloudFormation updates no stack in this state: delete it, and deploy again: aws cloudformation delete-stack --stack-name {word}"
        ),
    };
    Err(StackNotReady { problem: format!("the stack {stack} is {status}, and cannot be updated"), advice })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &str, expect: &str) {
        let advice = check_updatable("curfew", status).err().map_or_else(String::new, |not_ready| not_ready.advice);
        assert!(if expect.is_empty() { advice.is_empty() } else { advice.contains(expect) }, "{status}: {advice}");
    }

    #[test]
    fn only_a_stack_at_rest_can_be_updated() {
        for status in ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE"] {
            check(status, "");
        }
        check("UPDATE_IN_PROGRESS", "under way");
        check("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "under way");
        check("REVIEW_IN_PROGRESS", "change set");
        check("UPDATE_ROLLBACK_FAILED", "continue-update-rollback --stack-name curfew");
        check("UPDATE_FAILED", "rollback-stack --stack-name curfew");
        for status in ["ROLLBACK_COMPLETE", "CREATE_FAILED", "DELETE_FAILED", "SOMETHING_NEW"] {
            check(status, "delete it");
        }
    }
}
