use super::*;

const ADDRESS: &str = "s3://curfew/activity/eu-central-1.json";

fn check(action: &'static str, code: Option<&str>, said: &str, sentence: &str) {
    assert_eq!(StoreError::call(action, ADDRESS.to_owned(), code, said).to_string(), sentence);
}

#[test]
fn a_failed_call_says_what_to_do() {
    check(
        "s3:GetObject",
        Some("AccessDenied"),
        "AccessDenied: Access Denied.",
        "s3:GetObject on s3://curfew/activity/eu-central-1.json failed: AccessDenied: Access Denied; grant the role that asked \
         s3:GetObject on it, and s3:ListBucket on the bucket, without which an absent object looks forbidden",
    );
    check(
        "s3:PutObject",
        Some("AccessDenied"),
        "AccessDenied",
        "s3:PutObject on s3://curfew/activity/eu-central-1.json failed: AccessDenied; grant the role that asked s3:PutObject on it, \
         and the use of the bucket's KMS key where it has one",
    );
    check(
        "s3:GetObject",
        Some("NoSuchBucket"),
        "NoSuchBucket: The specified bucket does not exist",
        "s3:GetObject on s3://curfew/activity/eu-central-1.json failed: NoSuchBucket: The specified bucket does not exist; set \
         CURFEW_BUCKET to the name of the state bucket",
    );
    check(
        "s3:PutObject",
        None,
        "dispatch failure: timed out",
        "s3:PutObject on s3://curfew/activity/eu-central-1.json failed: dispatch failure: timed out",
    );
}

#[test]
fn what_aws_says_is_bounded() {
    let error = StoreError::call("s3:GetObject", ADDRESS.to_owned(), None, &"ä".repeat(100_000));
    assert!(error.to_string().chars().count() < 2 * SAID_CHARACTERS_MAX);
    let key = format!("s3://state/inbox/{}", "%F0%9F%94%A5".repeat(250));
    for error in [
        StoreError::call("s3:GetObject", key.clone(), Some("KeyTooLongError"), "Your key is too long"),
        StoreError::unreached("s3:GetObject", key, "timeout"),
    ] {
        let said = error.to_string();
        assert!(said.chars().count() < 2 * ADDRESS_CHARACTERS_MAX && said.contains("s3://state/inbox/%F0"), "{said}");
    }
}

#[test]
fn only_a_read_that_fails_again_is_the_trouble_of_one_object() {
    let call = |action, code| StoreError::call(action, ADDRESS.to_owned(), Some(code), "As prepared");
    for code in ["AccessDenied", "InvalidObjectState", "InvalidRequest", "KMS.DisabledException", "KeyTooLongError"] {
        assert!(call("s3:GetObject", code).is_of_one_object(), "{code}");
        assert!(!call("s3:PutObject", code).is_of_one_object() && !call(LIST, code).is_of_one_object(), "{code}");
    }
    for code in ["SlowDown", "InternalError", "ServiceUnavailable", "KMS.InternalException", "ThrottlingException"] {
        assert!(!call("s3:GetObject", code).is_of_one_object(), "{code}");
    }
    let too_large = StoreError::TooLarge { address: ADDRESS.to_owned(), bytes: 2, bytes_max: 1 };
    assert!(too_large.is_of_one_object() && !StoreError::Lost { address: ADDRESS.to_owned() }.is_of_one_object());
}
