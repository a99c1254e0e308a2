//! The effective configuration: defaults, file, environment and flags, in this order of weight.
//!
//! Four layers with the same names are laid over each other (figment keeps which layer a value came
//! from). Text from variables and flags becomes a number where the setting is one. A name nobody
//! knows is refused in the file, where it can only be a mistake, and warned of in the environment,
//! where others may have put it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::output::Output;
use crate::queues::SECRET_VARIABLE;
use crate::redact::redact;
use crate::server::Config;
use crate::settings::{Settings, flag_of, nearest, variable_of};

/// The file that is read if it is there and none is named.
const FILE: &str = "hermod.toml";
/// Variables of the client and of this module itself.
const OTHER_VARIABLES: [&str; 4] = ["HERMOD_SERVER", "HERMOD_KEY", "HERMOD_CONFIG", SECRET_VARIABLE];

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file; hermod.toml if there is one.
    // Not clap's own parser of paths, which refuses an empty one.
    #[arg(long, value_name = "FILE", env = "HERMOD_CONFIG", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// `hermod config`.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let effective = load(args)?;
    effective.warn();
    Output::new(false).text(&effective.to_toml()?)?;
    Ok(ExitCode::SUCCESS)
}

/// A configuration, and where each value came from.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(crate) config: Config,
    /// Setting and source, in the order of the settings.
    sources: Vec<(String, String)>,
    warnings: Vec<String>,
}

impl Effective {
    /// Says on stderr what looks like a mistake.
    pub(crate) fn warn(&self) {
        for warning in &self.warnings {
            eprintln!("warning: {warning}");
        }
    }

    /// As a file that gives the same configuration again, but for the passwords.
    fn to_toml(&self) -> anyhow::Result<String> {
        let values = toml::Table::try_from(&self.config)?;
        let mut text = String::from("# The effective configuration. Behind each value: where it comes from.\n");
        for (name, source) in &self.sources {
            text += &match values.get(name) {
                Some(toml::Value::String(value)) => format!("{name} = {} # {source}\n", toml::Value::String(redact(value))),
                Some(value) => format!("{name} = {value} # {source}\n"),
                None => format!("# {name} is not set\n"),
            };
        }
        Ok(text)
    }
}

/// The configuration of this process.
pub(crate) fn load(args: &ConfigArgs) -> anyhow::Result<Effective> {
    // An empty variable is how scripts and containers say "not set".
    let path = match args.config.as_deref().filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => Some(path),
        None => Some(Path::new(FILE)).filter(|path| path.exists()),
    };
    let file = match path {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the configuration file {}", path.display()))?;
            Some((path.display().to_string(), text))
        }
        None => None,
    };
    let text = |os: std::ffi::OsString| os.into_string().ok();
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect();
    merge(file, variables, args.settings.given())
}

/// Lays flags over variables over the file over the defaults.
fn merge(
    file: Option<(String, String)>,
    variables: BTreeMap<String, String>,
    flags: BTreeMap<String, String>,
) -> anyhow::Result<Effective> {
    let names = Settings::names();
    let (variables, warnings) = own_variables(variables, &names);
    let mut figment = Figment::from(Layer::new("default", Value::serialize(Config::default())?));
    if let Some((path, text)) = file {
        figment = figment.merge(Layer::new(&format!("file {path}"), read_file(&path, &text, &names)?));
    }
    let figment = figment
        .merge(Layer::new("env", Value::serialize(variables)?).spelled(variable_of))
        .merge(Layer::new("flag", Value::serialize(flags)?).spelled(flag_of));
    let config = figment.extract_lossy().map_err(explain)?;
    let source = |name: &String| match figment.find_metadata(name) {
        Some(metadata) => metadata.interpolate(&Profile::Default, &[name]),
        None => "default".to_owned(),
    };
    let sources = names.iter().map(|name| (name.clone(), source(name))).collect();
    Ok(Effective { config, sources, warnings })
}

fn read_file(path: &str, text: &str, names: &[String]) -> anyhow::Result<Value> {
    let table: toml::Table = toml::from_str(text).map_err(|fault| not_toml(path, text, &fault))?;
    if let Some(name) = table.keys().find(|name| !names.contains(name)) {
        match nearest(name, names) {
            Some(near) => bail!("{path}: there is no setting `{name}`; did you mean `{near}`?"),
            None => bail!("{path}: there is no setting `{name}`; `hermod config` lists them all"),
        }
    }
    Ok(Value::serialize(table)?)
}

/// What is wrong where. Without the line itself, which the parser would show: it may hold a password.
fn not_toml(path: &str, text: &str, fault: &toml::de::Error) -> anyhow::Error {
    let what = fault.message();
    let Some(before) = fault.span().and_then(|span| text.get(..span.start)) else {
        return anyhow::anyhow!("{path} is not valid TOML: {what}");
    };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    anyhow::anyhow!("{path} is not valid TOML: line {line}, column {column}: {what}")
}

/// The variables that are settings, by name, and warnings about those that perhaps should be.
fn own_variables(variables: BTreeMap<String, String>, names: &[String]) -> (BTreeMap<String, String>, Vec<String>) {
    let mut own = BTreeMap::new();
    let mut warnings = Vec::new();
    for (variable, value) in variables {
        let Some(rest) = variable.strip_prefix("HERMOD_") else { continue };
        // Kubernetes sets these for a service called hermod.
        let foreign = rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_");
        if foreign || OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let name = rest.to_lowercase();
        match names.contains(&name) {
            true if value.is_empty() => {}
            true => drop(own.insert(name, value)),
            false => warnings.push(match nearest(&name, names) {
                Some(near) => format!("{variable} is not a setting and is ignored; did you mean {}?", variable_of(&near)),
                None => format!("{variable} is not a setting and is ignored; `hermod config` lists them all"),
            }),
        }
    }
    (own, warnings)
}

/// What is wrong with which value, and who gave it.
fn explain(faults: figment::Error) -> anyhow::Error {
    let lines = faults.into_iter().map(|fault| {
        let name = fault.path.join(".");
        let source = fault.metadata.as_ref().map(|metadata| metadata.interpolate(&Profile::Default, &fault.path));
        format!("{name}: {} (from {})", redact(&fault.kind.to_string()), source.as_deref().unwrap_or("default"))
    });
    anyhow::anyhow!("the configuration does not fit: {}", lines.collect::<Vec<_>>().join("; "))
}

/// One source of values.
struct Layer {
    source: String,
    values: Value,
    /// How this source spells a setting, where that is worth saying.
    spelling: Option<fn(&str) -> String>,
}

impl Layer {
    fn new(source: &str, values: Value) -> Layer {
        Layer { source: source.to_owned(), values, spelling: None }
    }

    fn spelled(mut self, spelling: fn(&str) -> String) -> Layer {
        self.spelling = Some(spelling);
        self
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        let (source, spelling) = (self.source.clone(), self.spelling);
        Metadata::named(self.source.clone()).interpolater(move |_, path| match (spelling, path.first()) {
            (Some(spelling), Some(name)) => format!("{source} {}", spelling(name)),
            _ => source.clone(),
        })
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        let values = self.values.clone().into_dict().unwrap_or_default();
        Ok(Profile::Default.collect(values))
    }
}

#[cfg(test)]
mod tests;
