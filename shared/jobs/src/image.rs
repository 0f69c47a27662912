//! The image that a job's machine boots.

use model::config::Config;
use model::image_source::ImageSource;

use super::JobTerms;

/// The image that a job names; else that of the configuration, or for a CPU job Amazon Linux: it needs no driver.
#[must_use]
pub fn image_source(terms: &JobTerms, config: &Config) -> ImageSource {
    let default = || if terms.is_cpu_job() { ImageSource::without_gpu() } else { config.jobs.image.clone() };
    terms.machine.ami.clone().map_or_else(default, ImageSource::Image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineSpec;
    use crate::next::tests::fixture::terms;
    use model::id::ResourceId;

    #[test]
    fn the_image_that_a_job_names_comes_before_that_of_the_configuration() {
        let config = Config::read("[jobs]\nimage = \"/curfew/images/gpu\"").unwrap();
        let check = |ami: Option<&str>, config: &Config, expect: &str| {
            let machine = MachineSpec { ami: ami.map(ResourceId::from), ..MachineSpec::default() };
            let terms = JobTerms { machine, ..terms() };
            assert_eq!(image_source(&terms, config).to_string(), expect);
        };
        check(None, &Config::default(), &ImageSource::default().to_string());
        check(None, &config, "/curfew/images/gpu");
        check(Some("ami-1"), &config, "ami-1");
    }
}
