//! Which source wins, what is refused, and what is shown.

use super::*;

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn file(text: &str) -> Option<(String, String)> {
    Some(("hermod.toml".to_owned(), text.to_owned()))
}

fn shown(effective: &Effective, name: &str) -> String {
    let text = effective.to_toml().unwrap();
    text.lines().find(|line| line.trim_start_matches("# ").starts_with(&format!("{name} "))).unwrap().to_owned()
}

#[test]
fn a_flag_wins_over_env_over_file_over_default() {
    let layers = |file: Option<&str>, env: &[(&str, &str)], flag: &[(&str, &str)]| {
        let file = file.map(|text| ("hermod.toml".to_owned(), text.to_owned()));
        shown(&merge(file, texts(env), texts(flag)).unwrap(), "partitions")
    };
    let (in_file, env, flag) = (Some("partitions = 2"), [("HERMOD_PARTITIONS", "3")], [("partitions", "4")]);
    assert_eq!(layers(None, &[], &[]), "partitions = 64 # default");
    assert_eq!(layers(in_file, &[], &[]), "partitions = 2 # file hermod.toml");
    assert_eq!(layers(in_file, &env, &[]), "partitions = 3 # env HERMOD_PARTITIONS");
    assert_eq!(layers(in_file, &env, &flag), "partitions = 4 # flag --partitions");
    assert_eq!(layers(None, &[("HERMOD_PARTITIONS", "")], &[]), "partitions = 64 # default");
}

#[test]
fn each_setting_is_taken_from_its_own_source() {
    let effective = merge(
        file("data = '/var/lib/hermod'\nlog = 'warn'\nlegacy_headers = false"),
        texts(&[("HERMOD_LOG", "debug"), ("HERMOD_LEGACY_HEADERS", "true"), ("HERMOD_TLS_CERT", "cert.pem"), ("PATH", "/bin")]),
        texts(&[("in_flight_max", "16")]),
    )
    .unwrap();
    assert_eq!(shown(&effective, "data"), "data = \"/var/lib/hermod\" # file hermod.toml");
    assert_eq!(shown(&effective, "log"), "log = \"debug\" # env HERMOD_LOG");
    assert_eq!(shown(&effective, "legacy_headers"), "legacy_headers = true # env HERMOD_LEGACY_HEADERS");
    assert_eq!(shown(&effective, "tls_cert"), "tls_cert = \"cert.pem\" # env HERMOD_TLS_CERT");
    assert_eq!(shown(&effective, "in_flight_max"), "in_flight_max = 16 # flag --in-flight-max");
    assert_eq!(shown(&effective, "listen"), "listen = \"127.0.0.1:7700\" # default");
    assert_eq!(shown(&effective, "otlp"), "# otlp is not set");
    assert!(effective.warnings.is_empty());
}

#[test]
fn unknown_names_are_refused_in_the_file_and_warned_of_in_the_environment() {
    let fault = merge(file("listn = '0.0.0.0:1'"), texts(&[]), texts(&[])).unwrap_err().to_string();
    assert_eq!(fault, "hermod.toml: there is no setting `listn`; did you mean `listen`?");
    let variables = [
        ("HERMOD_LISTN", "x"),
        ("HERMOD_SERVER", "http://h"),
        ("HERMOD_KEY", "hk_x"),
        ("HERMOD_WEBHOOK_SECRET", "whsec_x"),
        ("HERMOD_SERVICE_HOST", "10.0.0.1"),
        ("HERMOD_PORT_7700_TCP", "tcp://10.0.0.1:7700"),
    ];
    let effective = merge(None, texts(&variables), texts(&[])).unwrap();
    assert_eq!(effective.warnings, ["HERMOD_LISTN is not a setting and is ignored; did you mean HERMOD_LISTEN?"]);
}

#[test]
fn a_value_that_does_not_fit_names_its_source() {
    for (in_file, env, flag, source) in [
        (Some("partitions = 'many'"), None, None, "file hermod.toml"),
        (None, Some(("HERMOD_PARTITIONS", "many")), None, "env HERMOD_PARTITIONS"),
        (None, None, Some(("partitions", "many")), "flag --partitions"),
    ] {
        let env: Vec<_> = env.into_iter().collect();
        let flag: Vec<_> = flag.into_iter().collect();
        let fault = merge(in_file.and_then(file), texts(&env), texts(&flag)).unwrap_err().to_string();
        assert!(fault.contains("partitions") && fault.contains(source), "{fault}");
    }
}

#[test]
fn a_file_that_is_not_toml_is_told_its_place_and_no_password() {
    for (text, place) in [
        ("partitions = ", "line 1, column 14: "),
        ("catalog = postgres://me:s3cret@h/db", "line 1, column 11: "),
        ("# größer\nlog = 'wärn' s3cret\n", "line 2, column 14: "),
        ("store = 'redis://:s3cret@h\n", "line 1, column 27: "),
    ] {
        let fault = merge(file(text), texts(&[]), texts(&[])).unwrap_err();
        let told = format!("{fault:#}");
        assert!(told.starts_with(&format!("hermod.toml is not valid TOML: {place}")), "{told}");
        assert!(!told.contains("s3cret") && told.lines().count() == 1, "{told}");
    }
}

#[test]
fn passwords_are_not_printed() {
    let env = [("HERMOD_STORE", "redis://:s3cret@h:6379"), ("HERMOD_CATALOG", "postgres://me:s3cret@h/db")];
    let effective = merge(None, texts(&env), texts(&[])).unwrap();
    let text = effective.to_toml().unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    assert_eq!(shown(&effective, "store"), "store = \"redis://:***@h:6379\" # env HERMOD_STORE");
}

#[test]
fn what_is_printed_can_be_read_back() {
    let first = merge(None, texts(&[("HERMOD_OTLP", "http://h:4317")]), texts(&[("memory_max", "2GiB")])).unwrap().to_toml().unwrap();
    let again = merge(file(&first), texts(&[]), texts(&[])).unwrap().to_toml().unwrap();
    let values = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
    assert_eq!(values(&first), values(&again));
}
