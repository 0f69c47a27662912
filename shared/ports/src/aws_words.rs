//! The words of AWS that decide something, because one code stands for several things. No other sentence of AWS decides anything.

/// IAM user guide, "Troubleshoot access denied error messages".
pub const EXPLICIT_DENY: &str = "explicit deny";

/// Words for a denial by a policy of the organisation (same page).
pub const BY_ORGANISATION: [&str; 2] = ["service control policy", "resource control policy"];

/// Words before the denied action (same page).
pub const NOT_AUTHORIZED_TO: &str = "is not authorized to perform: ";

/// `CloudFormation` API reference, `DescribeStacks` and `DescribeStackResources`: an absent stack is a `ValidationError`.
pub const NO_SUCH_STACK: &str = "does not exist";

/// `SageMaker` API reference, "`DescribeEndpoint`" and "`DescribeNotebookInstance`": they have no error of their own for what is absent, so
/// it is a `ValidationException`.
pub const NOT_IN_SAGEMAKER: [&str; 2] = ["Could not find", "RecordNotFound"];

/// `CloudFormation` user guide, "Troubleshooting CloudFormation": a `ValidationError`.
pub const NO_UPDATES: &str = "No updates are to be performed";

/// EC2 user guide, "Enable stop protection for your EC2 instances": an `OperationNotPermitted`.
pub const STOP_PROTECTION: &str = "disableApiStop";

/// EC2 user guide, "Change instance termination protection": an `OperationNotPermitted`.
pub const TERMINATION_PROTECTION: &str = "disableApiTermination";

/// What uses a snapshot, in lower case, in an `InvalidSnapshot.InUse` (`The snapshot snap-1 is currently in use by ami-1`).
pub const IMAGE: &str = "ami-";
pub const FAST_RESTORE: &str = "fast snapshot restore";

/// EBS user guide, "Amazon EBS snapshot lock": an `OperationNotPermitted`, in lower case. It names no wording.
pub const SNAPSHOT_LOCK: &str = " lock";

/// IAM user guide, "Troubleshoot IAM", "Changes that I make are not always immediately visible": an `InvalidParameterValue` of `RunInstances`.
pub const UNKNOWN_PROFILE: &str = "Invalid IAM Instance Profile";

/// EC2 API reference, `RunInstances`: parameters in messages of `InvalidParameterValue` and `InvalidParameterCombination` that are the same
/// for every candidate, in lower case.
pub const PARAMETERS_OF_THE_REQUEST: [&str; 6] =
    ["clienttoken", "instanceinitiatedshutdownbehavior", "metadataoptions", "tag key", "tag value", "user data"];

/// Words of an expired login: the SDK's message about the token of `aws sso login`, and IAM Identity Center's about an expired one (AWS IAM
/// Identity Center portal API reference, `GetRoleCredentials`). The SDK does not export the types of these errors.
pub const LOGIN_IS_OVER: [&str; 3] = ["/sso/cache/", "SSO token", "UnauthorizedException"];
