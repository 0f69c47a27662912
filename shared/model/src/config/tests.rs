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
        utilization = "neuroncore_utilization"
        [teams.vision]
        mode = "enforce"
        email = "vision@example.com"
        local_disk = "expendable"
        monthly_budget_usd = 5000
        notify_at_percent = [50, 80, 100]
        over_budget = "hold"
        [account]
        name = "research"
        monthly_budget_usd = 20000
        notify_at_percent = [100, 80, 80]
        over_budget = "stop"
        over_budget_grace = "0s"
        time_zone = "Europe/Berlin"
        cost_explorer = true
        [prices]
        discount_percent = { p5 = 12.5 }
        "#,
    )
    .unwrap();
    assert_eq!(config.mode, Mode::Enforce);
    assert_eq!(config.account.name.as_deref(), Some("research"));
    assert!(config.idle.window.is_zero());
    assert_eq!(config.limits.actions_max, 3);
    assert_eq!(config.metrics.neuron.unwrap().namespace, "Neuron");
    assert!(config.metrics.nvidia.is_some());
    assert_eq!(config.teams.len(), 1);
    assert_eq!((config.account.over_budget, config.account.monthly_budget_usd), (OverBudget::Stop, Some(20_000.0)));
    assert_eq!(config.prices.discount_percent, BTreeMap::from([("p5".to_owned(), 12.5)]));
}

#[test]
fn refusals_name_line_and_key() {
    assert_snapshot!(refusal("mode = \"enforce\"\n[idle]\nwindw = \"1h\"\n"), @r#"config/curfew.toml, line 3, column 1, key `idle.windw`: there is no key `windw` here; did you mean `window`?"#);
    assert_snapshot!(refusal("[idle]\nwindow = \"soon\"\n"), @r#"config/curfew.toml, line 2, column 10, key `idle.window`: `soon` is not a duration; write a number and a unit of s, m, h, d or w, such as `30m`, `1h30m` or `0s`, ten years at most"#);
    assert_snapshot!(refusal("[idle]\nwindow = \"90d\"\n"), @r#"config/curfew.toml, line 2, column 10, key `idle.window`: 90d is longer than 60d, the most that metrics can answer"#);
    assert_snapshot!(refusal("[idle]\n\ncoverage_min_percent = 150\n"), @r#"config/curfew.toml, line 3, column 24, key `idle.coverage_min_percent`: write a whole number from 0 to 100, not 150"#);
    assert_snapshot!(refusal("mode = \"destroy\"\n"), @r#"config/curfew.toml, line 1, column 8, key `mode`: `destroy` is none of `observe`, `enforce`"#);
    assert_snapshot!(refusal("[limits]\nactions_max = -1\n"), @r#"config/curfew.toml, line 2, column 15, key `limits.actions_max`: write a whole number, 0 or more, not -1"#);
    assert_snapshot!(refusal("[teams.vision]\nemail = \"vision\"\n"), @r#"config/curfew.toml, line 2, column 9, key `teams.vision.email`: `vision` is not an e-mail address"#);
    assert_snapshot!(refusal("[idle]\ngpu_below_percent = nan\n"), @r#"config/curfew.toml, line 2, column 21, key `idle.gpu_below_percent`: NaN is not a threshold; write a number from 0 up"#);
    assert_snapshot!(refusal("[idle\nwindow = \"1h\"\n"), @r#"config/curfew.toml, line 1, column 6, key `[idle`: unclosed table, expected `]`"#);
    assert_snapshot!(refusal("[metrics.neuron]\nnamespace = \"Neuron\"\n"), @"config/curfew.toml, line 1, column 1, key `metrics.neuron`: `utilization` is missing: name the metric of this kind of accelerator, for the default is NVIDIA's");
    assert_snapshot!(refusal("[tags]\nrequired = [\"\"]\n"), @r#"config/curfew.toml, line 2, column 12, key `tags.required`: `` is not a tag key; it has 1 to 128 characters"#);
}

#[test]
fn refusals_of_budgets_and_prices() {
    let account = |line: &str| refusal(&format!("[account]\n{line}\n"));
    assert_snapshot!(account("notify_at_percent = [0]"), @"config/curfew.toml, line 2, column 22, key `account.notify_at_percent[0]`: write a whole number from 1 to 1000, not 0");
    assert_snapshot!(account("notify_at_percent = [50, 1001]"), @"config/curfew.toml, line 2, column 26, key `account.notify_at_percent[1]`: write a whole number from 1 to 1000, not 1001");
    assert_snapshot!(account("notify_at_percent = [50.5]"), @"config/curfew.toml, line 2, column 22, key `account.notify_at_percent[0]`: write a whole number from 1 to 1000, not 50.5");
    assert_snapshot!(account(&format!("notify_at_percent = {:?}", (1..=21).collect::<Vec<_>>())), @"config/curfew.toml, line 2, column 21, key `account.notify_at_percent`: 21 shares of a budget; write 20 at most");
    assert_snapshot!(account("monthly_budget_usd = -1"), @"config/curfew.toml, line 2, column 22, key `account.monthly_budget_usd`: -1 is not an amount; write USD, a number from 0 up");
    assert_snapshot!(account("monthly_budget_usd = 1e30"), @"config/curfew.toml, line 2, column 22, key `account.monthly_budget_usd`: 1e30 is more than a month's spend can be; write 1000000000 at most");
    assert_snapshot!(account("monthly_budget_usd = inf"), @"config/curfew.toml, line 2, column 22, key `account.monthly_budget_usd`: inf is more than a month's spend can be; write 1000000000 at most");
    assert_snapshot!(account("over_budget = \"terminate\""), @"config/curfew.toml, line 2, column 15, key `account.over_budget`: `terminate` is none of `notify`, `hold`, `stop`");
    assert_snapshot!(account("over_budget_grace = 3600"), @"config/curfew.toml, line 2, column 21, key `account.over_budget_grace`: write a duration such as `30m`, not 3600");
    assert_snapshot!(account("time_zone = \"Europe/Berlinn\""), @"config/curfew.toml, line 2, column 13, key `account.time_zone`: `Europe/Berlinn` is not a time zone of the IANA database, such as `Europe/Berlin` or `UTC`");
    assert_snapshot!(account("name = \" \""), @r#"config/curfew.toml, line 2, column 8, key `account.name`: " " names no account; write 1 to 50 characters on one line"#);
    assert_snapshot!(account("cost_explorer = \"yes\""), @r#"config/curfew.toml, line 2, column 17, key `account.cost_explorer`: write true or false, not the text "yes""#);
    assert_snapshot!(refusal("[prices]\ndiscount_percent = { p5 = 101 }\n"), @"config/curfew.toml, line 2, column 27, key `prices.discount_percent.p5`: 101 is not a share; write a number from 0 to 100");
    assert_snapshot!(refusal("[teams.vision]\nnotify_at_percent = [-50]\n"), @"config/curfew.toml, line 2, column 22, key `teams.vision.notify_at_percent[0]`: write a whole number from 1 to 1000, not -50");
    assert_snapshot!(refusal("[teams.vision]\nmonthly_budget_usd = \"5000\"\n"), @r#"config/curfew.toml, line 2, column 22, key `teams.vision.monthly_budget_usd`: write a number, not the text "5000""#);
}

#[test]
fn an_image_is_one_that_run_jobs_may_look_up() {
    let image = |text: &str| refusal(&format!("[jobs]\nimage = {text}\n"));
    assert_snapshot!(image("\"ubuntu\""), @r#"config/curfew.toml, line 2, column 9, key `jobs.image`: "ubuntu" names no image; write the id of one (`ami-0123456789abcdef0`), or the name of a parameter, from `/` on, that holds it"#);
    assert_snapshot!(image("\"/golden/gpu\""), @r#"config/curfew.toml, line 2, column 9, key `jobs.image`: run-jobs may not read the parameter "/golden/gpu"; its name has to begin with `/aws/service/deeplearning/` or `/curfew/images/`"#);
    assert_snapshot!(image("\"/curfew/images/{arch}\""), @r#"config/curfew.toml, line 2, column 9, key `jobs.image`: the name of the parameter "/curfew/images/{arch}" has '{'; write letters, digits, `/`, `.`, `-`, `_` and `{architecture}`"#);
    assert_snapshot!(image("[]"), @"config/curfew.toml, line 2, column 9, key `jobs.image`: write a text, not a list");
}

#[test]
fn what_teams_may_use_is_listed_by_its_id() {
    let wrong = |text: &str, why: &str| {
        let refused = refusal(text);
        assert!(refused.contains(why), "{refused}");
    };
    wrong(
        "[teams.a]\nsubnets = [\"sg-0123abcd\"]\n",
        "key `teams.a.subnets`: \"sg-0123abcd\" is not the id of a subnet",
    );
    wrong(
        "[teams.a]\nsecurity_groups = [\"*\"]\n",
        "key `teams.a.security_groups`: \"*\" is not the id of a security group",
    );
    wrong("[teams.a]\nimages = [\"self\"]\n", "key `teams.a.images`: \"self\" is not the id of an image");
    wrong("[teams.a]\nbuckets = [\"s3://*\"]\n", "\"s3://*\" names no bucket");
    wrong("[jobs]\nteams = \"all\"\n", "`all` is none of `configured`, `any`");
    let buckets = |text: &str| Config::read(text).unwrap().team(&"a".into()).unwrap().buckets.clone();
    assert_eq!(buckets("[teams.a]\nbuckets = [\"data/a\"]"), buckets("[teams.a]\nbuckets = [\"s3://data/a\"]"));
}

#[test]
fn idleness_of_jobs_is_notified_after_an_hour_or_as_the_account_or_the_team_says() {
    let check = |text: &str, expect: Option<i64>| {
        let config = Config::read(text).unwrap();
        assert_eq!(config.idle_after(&"a".into()).map(|after| after.as_mins()), expect, "{text}");
        assert_eq!(Config::read(&Settings::from_config(&config).to_string()), Ok(config));
    };
    check("", Some(60));
    check("[jobs]\nidle_after = \"30m\"", Some(30));
    check("[jobs]\nidle_after = \"off\"", None);
    check("[jobs]\nidle_after = \"off\"\n[teams.a]\nidle_after = \"2h\"\n[teams.b]\nidle_after = \"5m\"", Some(120));
    check("[teams.a]\nidle_after = \"off\"", None);
    assert_snapshot!(refusal("[jobs]\nidle_after = \"0s\"\n"), @"config/curfew.toml, line 2, column 14, key `jobs.idle_after`: `0s` is not possible; write 5m to 7d, or `off`");
    assert_snapshot!(refusal("[teams.a]\nidle_after = \"never\"\n"), @"config/curfew.toml, line 2, column 14, key `teams.a.idle_after`: `never` is not a duration; write a number and a unit of s, m, h, d or w, such as `30m`, `1h30m` or `0s`, ten years at most; or `off`");
    assert_snapshot!(refusal("[jobs]\nidle_after = 60\n"), @"config/curfew.toml, line 2, column 14, key `jobs.idle_after`: write a text, not 60");
}

#[test]
fn the_machines_of_jobs_have_a_ceiling() {
    assert_snapshot!(refusal("[jobs]\ngpus_max = 513\n"), @"config/curfew.toml, line 2, column 12, key `jobs.gpus_max`: write a whole number from 0 to 512, not 513");
    assert_snapshot!(refusal("[teams.a]\nusd_per_hour_max = 0\n"), @"config/curfew.toml, line 2, column 20, key `teams.a.usd_per_hour_max`: 0 is not a price of a machine; write USD an hour, a number above 0, up to 1000000");
    assert_snapshot!(refusal("[jobs]\nconfirm_above_usd = -1\n"), @"config/curfew.toml, line 2, column 21, key `jobs.confirm_above_usd`: -1 is not a threshold; write a number from 0 up");
}

#[test]
fn boxes_have_limits_by_default() {
    let check = |text: &str| {
        let config = Config::read(text).unwrap();
        assert_eq!(Config::read(&Settings::from_config(&config).to_string()), Ok(config.clone()), "{text}");
        config
    };
    assert_snapshot!(serde_json::to_string(&check("").boxes).unwrap(), @r#"{"per_owner_max":2,"runtime_max":"1d","idle_min":"15m","idle_max":"4h","home_gib_max":1024}"#);
    let team =
        "[teams.a]\nboxes_per_owner_max = 0\nbox_runtime_max = \"8h\"\nbox_idle_max = \"1h\"\nbox_home_gib_max = 50";
    assert_eq!(check(team).teams["a"].box_runtime_max, Some(jiff::SignedDuration::from_hours(8)));
    assert_snapshot!(refusal("[boxes]\nper_owner_max = -1\n"), @"config/curfew.toml, line 2, column 17, key `boxes.per_owner_max`: write a whole number from 0 to 100, not -1");
    assert_snapshot!(refusal("[boxes]\nruntime_max = \"10m\"\n"), @"config/curfew.toml, line 2, column 15, key `boxes.runtime_max`: `10m` is not possible; write 15m to 7d");
    assert_snapshot!(refusal("[teams.a]\nbox_idle_max = \"2d\"\n"), @"config/curfew.toml, line 2, column 16, key `teams.a.box_idle_max`: `2d` is not possible; write 5m to 1d");
    assert_snapshot!(refusal("[boxes]\nhome_gib_max = 0\n"), @"config/curfew.toml, line 2, column 16, key `boxes.home_gib_max`: write a whole number from 1 to 65536, not 0");
}

#[test]
fn profiles_are_allowed_team_by_team() {
    assert_snapshot!(refusal("[jobs]\ninstance_profiles = [\"training\"]\n"), @r#"config/curfew.toml, line 2, column 21, key `jobs.instance_profiles`: each team has a list of its own: allow "training" under [teams.<name>] instance_profiles, for the teams that need it"#);
    assert_snapshot!(refusal("[jobs]\nshared_role = \"always\"\n"), @"config/curfew.toml, line 2, column 15, key `jobs.shared_role`: `always` is none of `deny`, `allow`");
    let config =
        Config::read("[jobs]\ninstance_profiles = []\n[teams.vision]\ninstance_profiles = [\"training\"]\n").unwrap();
    assert_eq!(config.team(&"vision".into()).unwrap().instance_profiles, ["training"]);
    assert_eq!(config.jobs, JobsConfig::default());
}

#[test]
fn a_refusal_fits_a_message_whatever_it_repeats() {
    let long = "x".repeat(250_000);
    for text in [format!("mode = \"{long}\""), format!("{long} = 1"), format!("[teams.{long}]\nx = 1"), long.clone()] {
        let refusal = refusal(&text);
        assert!(refusal.starts_with("config/curfew.toml, line ") && refusal.len() < 2_000, "{refusal}");
    }
}

#[test]
fn a_section_is_no_list() {
    assert_snapshot!(refusal("limits = [1000, 100]\n"), @"config/curfew.toml, line 1, column 10, key `limits`: write a table of keys and values, not a list");
    for text in ["idle = []", "teams.vision = [\"enforce\"]", "metrics.nvidia = []", "metrics.amd = []", "teams = []"] {
        assert!(refusal(text).contains("write a table of keys and values, not a list"), "{text}");
    }
}

#[test]
fn a_byte_that_is_no_utf8_is_refused_with_its_place() {
    let refused = |document: &[u8]| Config::read_bytes(document).unwrap_err();
    let error = refused(b"mode = \"observe\"\n# gr\xc3\xbc\xdfe\n");
    assert_eq!((error.line, error.column), (2, 6));
    let error = refused(b"\xff\xfe");
    assert_eq!((error.line, error.column), (1, 1));
    assert!(Config::read_bytes(b"mode = \"enforce\"").is_ok() && Config::read_bytes(b"mode = \"perhaps\"").is_err());
}

#[test]
fn what_belongs_to_no_team_is_no_team() {
    let named = |text: &str| {
        let config = Config::read(text).unwrap();
        let names: Vec<String> = config.named_teams().map(ToString::to_string).collect();
        (names.join(" "), config.has_jobs_of_any_team())
    };
    assert_eq!(named("[teams.untagged]"), (String::new(), true));
    assert_eq!(named("[teams.vision]\n[teams.untagged]\n[teams.nlp]"), ("nlp vision".to_owned(), false));
}

#[test]
fn an_impossible_team_name_is_refused() {
    assert_snapshot!(refusal("[teams.\" vision\"]\nmode = \"enforce\"\n"), @r#"config/curfew.toml, line 1, column 8, key `teams. vision`: " vision" names no team: the name of a team is not blank, and has no blanks at its ends and no control characters"#);
    for name in ["", " ", "vis\\nion", "vision ", "\\t", "vis\\u0085ion", "vis\\u001bion"] {
        let refused = refusal(&format!("[teams.\"{name}\"]\nmode = \"enforce\"\n"));
        assert!(refused.contains("names no team: the name of a team is not blank"), "{refused}");
    }
    assert!(Config::read("[teams.\"it's \\\"$(reboot)\\\" Bild/Köln\"]").is_ok());
}

#[test]
fn projects_are_names_that_are_not_blank() {
    let config = Config::read("[projects]\ntag = \"CostCenter\"\nallowed = [\"atlas\", \" Zephyr 2 \"]").unwrap();
    assert_eq!(config.projects.tag, "CostCenter");
    assert!(["atlas", "ATLAS", "zephyr 2", " Zephyr 2"].map(|name| config.projects.allows(name)).iter().all(|is| *is));
    assert!(!config.projects.allows("atla") && !config.projects.allows(""));
    assert!(Config::default().projects.allows("anything"));
    assert_snapshot!(refusal("[projects]\nallowed = [\"a\", \" \"]"), @"config/curfew.toml, line 2, column 11, key `projects.allowed`: a blank name is no project; write the names that may run, or no list for all of them");
    assert_snapshot!(refusal("[projects]\ntag = \"\""), @"config/curfew.toml, line 2, column 7, key `projects.tag`: `` is not a tag key; it has 1 to 128 characters");
}
