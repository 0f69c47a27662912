use execution::jobs::AnswerCache;
use jobs::JobTerms;
use model::config::Config;

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws, page_of};

const AMI: &str = "ami-0123456789abcdef0";
const TODAY: &str =
    "/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id";
const UBUNTU: &str = "<platformDetails>Linux/UNIX</platformDetails><name>Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)</name>";
const DEVICES: &str = "<blockDeviceMapping>\
    <item><deviceName>/dev/sda1</deviceName><ebs><volumeSize>65</volumeSize></ebs></item>\
    <item><deviceName>/dev/sdb</deviceName><virtualName>ephemeral0</virtualName></item>\
    <item><deviceName>/dev/sdf</deviceName><ebs><volumeSize>100</volumeSize></ebs></item>\
    </blockDeviceMapping>";

/// An image that is available and on EBS, with these elements besides.
fn described(architecture: &str, more: &str) -> ReplayAnswer {
    let image = format!(
        "<item><imageId>{AMI}</imageId><imageState>available</imageState><architecture>{architecture}</architecture>\
         <rootDeviceType>ebs</rootDeviceType><rootDeviceName>/dev/sda1</rootDeviceName>{DEVICES}{more}</item>"
    );
    page_of("imagesSet", &[image], None)
}

fn parameter_of(value: &str) -> ReplayAnswer {
    ReplayAnswer::Raw(200, format!(r#"{{"Parameter":{{"Type":"String","Value":"{value}"}}}}"#).into())
}

async fn asked(
    architecture: &str,
    source: &str,
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<MachineImage, LaunchObstacle>, ReplayedCalls) {
    let (aws, calls) = aws(script);
    let source = source.parse().unwrap();
    (image(&aws, &"eu-west-1".into(), architecture, &source, "ab12").await, calls)
}

#[tokio::test]
async fn the_image_of_today_takes_two_calls() {
    for architecture in ["x86_64", "arm64"] {
        let (image, calls) = asked(architecture, TODAY, move |call| match call.name.as_str() {
            "GetParameter" => parameter_of(AMI),
            _ => described(architecture, UBUNTU),
        })
        .await;
        let expect = MachineImage {
            ami: AMI.into(),
            architecture: architecture.to_owned(),
            agent_sha256: "ab12".to_owned(),
            root_device: "/dev/sda1".to_owned(),
            root_gib: 65,
            is_for_all: false,
            other_devices: vec!["/dev/sdf".to_owned()],
        };
        assert_eq!(image, Ok(expect));
        let name = format!(
            "/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
        );
        let parameter = format!(r#"GetParameter {{"Name":"{name}"}}"#);
        assert_eq!(calls.said(), [parameter, format!("DescribeImages ImageId.1={AMI}")]);
        assert_eq!(calls.recorded()[0].region, "eu-west-1");
    }
}

#[tokio::test]
async fn a_parameter_of_the_account_is_asked_for_as_it_is_named() {
    for (source, name) in
        [("/curfew/images/gpu", "/curfew/images/gpu"), ("/curfew/images/{architecture}", "/curfew/images/arm64")]
    {
        let (image, calls) = asked("arm64", source, |call| match call.name.as_str() {
            "GetParameter" => parameter_of(AMI),
            _ => described("arm64", UBUNTU),
        })
        .await;
        assert_eq!(image.unwrap().ami, AMI.into());
        assert_eq!(calls.said()[0], format!(r#"GetParameter {{"Name":"{name}"}}"#));
    }
}

#[tokio::test]
async fn a_named_image_takes_one_call() {
    let (image, calls) = asked("x86_64", AMI, |_| described("x86_64", UBUNTU)).await;
    assert_eq!((image.unwrap().ami, calls.names()), (AMI.into(), vec!["DescribeImages".to_owned()]));
}

/// Why this image is refused.
async fn refused(more: &'static str) -> String {
    asked("x86_64", AMI, move |_| described("x86_64", more)).await.0.unwrap_err().to_string()
}

#[tokio::test]
async fn what_cannot_run_a_job_is_refused_in_words() {
    let table = [
        ("<platform>windows</platform>", "it has Windows, for which there is no agent"),
        ("<name>bottlerocket-aws-k8s-1.30-nvidia-x86_64</name>", "it is called bottlerocket, which has no cloud-init"),
        ("<name>Flatcar-stable-3975.2.2</name>", "it is called flatcar, which has no cloud-init"),
        ("<name>talos-v1.9.0</name>", "it is called talos, which has no cloud-init"),
        ("<description>Fedora CoreOS stable</description>", "it is called coreos"),
        ("<platformDetails>Red Hat Enterprise Linux</platformDetails>", "billed as Red Hat Enterprise Linux"),
        (
            "<productCodes><item><productCode>x</productCode><type>marketplace</type></item></productCodes>",
            "it is from AWS Marketplace",
        ),
    ];
    for (more, why) in table {
        let refused = refused(more).await;
        assert!(refused.contains(why), "{refused}");
        assert!(refused.starts_with(&format!("the image {AMI} in eu-west-1 cannot run a job: ")), "{refused}");
    }
    let (arm, _) = asked("x86_64", AMI, |_| described("arm64", UBUNTU)).await;
    assert!(arm.unwrap_err().to_string().ends_with("it is for arm64, and the machine is x86_64"));
}

/// What an emulator of EC2 leaves out, and what only sounds like something else.
#[tokio::test]
async fn an_image_of_linux_is_taken_by_whatever_name() {
    for more in ["", "<description>Built beside the Windows one</description>", "<platformDetails></platformDetails>"] {
        let (image, _) = asked("x86_64", AMI, move |_| described("x86_64", more)).await;
        assert!(image.is_ok(), "{image:?}");
    }
}

#[tokio::test]
async fn an_image_that_is_not_there_or_not_ready_is_refused() {
    let one = |state: &str, root: &str| {
        let image = format!(
            "<item><imageId>{AMI}</imageId><imageState>{state}</imageState><rootDeviceType>{root}</rootDeviceType></item>"
        );
        page_of("imagesSet", &[image], None)
    };
    let table: [(ReplayAnswer, &str); 5] = [
        (one("pending", "ebs"), "it is pending"),
        (one("disabled", "ebs"), "it is disabled"),
        (one("available", "instance-store"), "its root is on instance storage"),
        (one("available", "ebs"), "EC2 does not name its root device"),
        (page_of("imagesSet", &[], None), "this account sees no image"),
    ];
    for (answer, why) in table {
        let answer = std::sync::Mutex::new(Some(answer));
        let (image, _) = asked("x86_64", AMI, move |_| answer.lock().unwrap().take().unwrap()).await;
        let refused = image.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let (image, _) =
        asked("x86_64", AMI, |_| ReplayAnswer::error("InvalidAMIID.NotFound", "The image id does not exist")).await;
    assert!(
        image.unwrap_err().to_string().starts_with("ec2:DescribeImages failed in eu-west-1: InvalidAMIID.NotFound")
    );
}

#[tokio::test]
async fn a_region_without_the_image_of_today_says_what_to_do() {
    let none = |_: &ReplayedCall| ReplayAnswer::Raw(400, br#"{"__type":"ParameterNotFound"}"#.to_vec());
    let (image, calls) = asked("arm64", TODAY, none).await;
    let refused = image.unwrap_err().to_string();
    assert!(
        refused.starts_with("eu-west-1 has no parameter /aws/service/deeplearning/ami/arm64/base-oss"),
        "{refused}"
    );
    assert!(refused.ends_with("name an image under `[machine] ami`"), "{refused}");
    assert_eq!(calls.names(), ["GetParameter"]);
    let (image, _) = asked("arm64", TODAY, |_| parameter_of("soon")).await;
    assert!(
        image
            .unwrap_err()
            .to_string()
            .contains("latest/ami-id holds no id of an image in eu-west-1; change `[jobs] image`")
    );
    let denied =
        |_: &ReplayedCall| ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException","message":"no"}"#.to_vec());
    let refused = asked("arm64", TODAY, denied).await.0.unwrap_err().to_string();
    assert!(refused.ends_with("grant ssm:GetParameter to the role that asked"), "{refused}");
}

#[tokio::test]
async fn the_jobs_of_a_run_ask_once_for_an_image() {
    let (aws, calls) = aws(|call| match call.name.as_str() {
        "GetParameter" => parameter_of(AMI),
        _ => described("arm64", UBUNTU),
    });
    let (asked, region, today) = (AnswerCache::default(), Region::from("eu-west-1"), ImageSource::default());
    let looks = (0..5).map(|_| asked.image(&aws, &region, "arm64", &today, "ab12"));
    let images = futures::future::join_all(looks).await;
    assert!(images.iter().all(|image| image.is_ok() && *image == images[0]));
    assert_eq!(calls.names(), ["GetParameter", "DescribeImages"]);
    let named = asked.image(&aws, &region, "arm64", &ImageSource::Image(AMI.into()), "ab12").await;
    assert_eq!((named, calls.recorded().len()), (images[0].clone(), 3), "another question");
}

/// That everybody may have it, EC2 says, and nothing else does.
#[tokio::test]
async fn an_image_is_for_all_by_the_word_of_ec2_or_of_the_configuration() {
    const OURS: &str = "/curfew/images/gpu";
    let look = async |more: &'static str, config: &str, ami: Option<&str>| {
        let (aws, _) = aws(move |call| match call.name.as_str() {
            "GetParameter" => parameter_of(AMI),
            _ => described("arm64", more),
        });
        let terms: JobTerms = serde_json::from_value(json!({
            "gpu": { "count": 1, "memory_gib_min": 0, "types": [] }, "max_runtime_seconds": 3_600,
            "machine": { "regions": [], "ami": ami, "subnets": [], "security_groups": [] }
        }))
        .unwrap();
        let (cache, region, config) =
            (AnswerCache::default(), Region::from("eu-west-1"), Config::read(config).unwrap());
        let of = (&terms, &"vision".into());
        let image = cache.machine_image(&aws, (&region, "arm64"), of, &config, "ab12").await;
        image.map(|image| image.is_for_all).map_err(|why| why.to_string())
    };
    let private = "<isPublic>false</isPublic><imageOwnerId>123456789012</imageOwnerId>";
    let other = "[jobs]\nimage = \"ami-4567abcd\"\n[teams.vision]";
    for allowed in ["<isPublic>true</isPublic>", "<imageOwnerAlias>amazon</imageOwnerAlias>"] {
        assert_eq!(look(allowed, other, Some(AMI)).await, Ok(true), "{allowed}");
    }
    for unknown in [private, "", "<imageOwnerAlias>self</imageOwnerAlias>", "<name>amazon</name>"] {
        let refused = look(unknown, other, Some(AMI)).await.unwrap_err();
        assert!(refused.contains("images of [teams.vision] in the configuration does not allow"), "{refused}");
    }
    let listed = format!("{other}\nimages = [\"{AMI}\"]");
    assert_eq!(look(private, &listed, Some(AMI)).await, Ok(false));
    assert_eq!(look(private, &format!("[jobs]\nimage = \"{OURS}\""), Some(AMI)).await, Ok(true));
    assert_eq!(look(private, &format!("[jobs]\nimage = \"{OURS}\""), None).await, Ok(false));
}
