use insta::assert_snapshot;

use super::*;

fn refusal(text: &str) -> String {
    match Config::read(text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn absent_means_defaults_in_observe_mode() {
    let config = Config::read("").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.mode, Mode::Observe);
    assert_eq!(config.untagged.mode, Mode::Observe);
}

#[test]
fn every_documented_key_is_read() {
    let config = Config::read(
        r#"
        mode = "enforce"
        regions = ["eu-central-1"]
        [idle]
        window = "0s"
        gpu_below_percent = 7.5
        [limits]
        actions_max = 3
        [metrics.neuron]
        namespace = "Neuron"
        [teams.vision]
        mode = "enforce"
        email = "vision@example.com"
        local_disk = "expendable"
        monthly_budget_usd = 5000
        notify_at_percent = [50, 80, 100]
        over_budget = "hold"
        "#,
    )
    .unwrap();
    assert_eq!(config.mode, Mode::Enforce);
    assert!(config.idle.window.is_zero());
    assert_eq!(config.limits.actions_max, 3);
    assert_eq!(config.metrics.neuron.unwrap().namespace, "Neuron");
    assert!(config.metrics.nvidia.is_some());
    assert_eq!(config.teams.len(), 1);
}

#[test]
fn refusals_name_line_and_key() {
    assert_snapshot!(refusal("mode = \"enforce\"\n[idle]\nwindw = \"1h\"\n"), @"");
    assert_snapshot!(refusal("[idle]\nwindow = \"soon\"\n"), @"");
    assert_snapshot!(refusal("[idle]\nwindow = \"90d\"\n"), @"");
    assert_snapshot!(refusal("[idle]\n\ncoverage_min_percent = 150\n"), @"");
    assert_snapshot!(refusal("mode = \"destroy\"\n"), @"");
    assert_snapshot!(refusal("[limits]\nactions_max = -1\n"), @"");
    assert_snapshot!(refusal("[teams.vision]\nemail = \"vision\"\n"), @"");
    assert_snapshot!(refusal("[idle]\ngpu_below_percent = nan\n"), @"");
    assert_snapshot!(refusal("[idle\nwindow = \"1h\"\n"), @"");
    assert_snapshot!(refusal("[tags]\nrequired = [\"\"]\n"), @"");
}
