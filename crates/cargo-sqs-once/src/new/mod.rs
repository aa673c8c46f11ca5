//! `cargo sqs-once new`: creates a project that builds, tests, lints and deploys.

mod project;
mod template;

use crate::cli::Format;
use crate::print;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use template::Choices;

const EXAMPLES: &str = "\
Examples:
  cargo sqs-once new payments
  cargo sqs-once new payments --fifo --effect dynamodb
  cargo sqs-once new payments --source sns --effect postgres
  cargo sqs-once new payments --iac terraform";

/// Create a project: a function with its tests, events and deployment
///
/// The function handles orders as an example; replace them with your own message. Without options, it consumes a
/// standard queue and its effect is a call to a service.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NewArgs {
    /// The name of the project and its folder: lower-case letters, digits and hyphens
    #[arg(value_parser = project::name)]
    name: String,

    /// Use a FIFO queue with a FIFO dead-letter queue
    #[arg(long)]
    fifo: bool,

    /// Where messages come from
    #[arg(long, value_enum, default_value_t = Origin::Sqs)]
    source: Origin,

    /// Where the effect of a message is
    #[arg(long, value_enum, default_value_t = Effect::Elsewhere)]
    effect: Effect,

    /// The tool that deploys the project
    #[arg(long, value_enum, default_value_t = Iac::Sam)]
    iac: Iac,

    /// The form of the list of created files
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Where messages come from.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Origin {
    /// Producers send to the queue
    Sqs,
    /// An SNS topic is in front of the queue; the function unwraps its envelope
    Sns,
    /// A custom event bus of EventBridge is in front of the queue; the function unwraps its envelope
    Bus,
}

/// Where the effect of a message is.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Effect {
    /// A call to a service
    Elsewhere,
    /// DynamoDB writes, which commit together with the completion of the message's key
    Dynamodb,
    /// In PostgreSQL, in the transaction that completes the message's key
    Postgres,
}

/// The tools that can deploy a project.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Iac {
    /// AWS SAM
    Sam,
    /// Terraform or OpenTofu
    Terraform,
    /// AWS CDK, in TypeScript
    Cdk,
}

/// The name of a choice, which the template uses as well.
fn name(choice: impl clap::ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Iac {
    fn deploy(self) -> &'static str {
        match self {
            Iac::Sam => "sam build && sam deploy --guided",
            Iac::Terraform => {
                "cargo lambda build --release --arm64 --output-format zip\n  \
                 terraform -chdir=terraform init && terraform -chdir=terraform apply"
            }
            Iac::Cdk => "(cd cdk && npm ci && npx cdk deploy)",
        }
    }
}

pub(crate) fn new(args: NewArgs) -> Result<()> {
    let here = std::env::current_dir().context("the current folder can't be found")?;
    let choices = Choices {
        fifo: args.fifo,
        source: name(args.source),
        effect: name(args.effect),
        iac: name(args.iac),
        sqs_once: repository().or_else(checkout),
    };
    let files = template::render(&args.name, &choices)?;
    project::write(&here, &args.name, &files)?;
    let paths: Vec<&str> = files.iter().map(|file| &*file.path).collect();
    if args.format.is_json() {
        let folder = here.join(&args.name);
        let folder = folder.to_string_lossy();
        return print::json(
            &json!({ "name": args.name, "folder": folder, "sqs_once": choices.sqs_once, "files": paths }),
        );
    }
    print::result(summary(&args, &paths, choices.sqs_once.as_deref()))
}

/// The repository that `cargo install --git` built this command from, with the commit behind a `#`. Cargo notes it in the
/// folder that contains `bin`.
fn repository() -> Option<String> {
    let binary = std::env::current_exe().ok()?;
    let installed = binary.parent()?.parent()?.join(".crates.toml");
    let installed: toml::Table = std::fs::read_to_string(installed).ok()?.parse().ok()?;
    let mut packages = installed.get("v1")?.as_table()?.keys();
    let source = packages.find_map(|package| {
        let own = package.strip_prefix(concat!(env!("CARGO_PKG_NAME"), " "))?;
        own.split_once("(git+")?.1.strip_suffix(')')
    });
    let (url, commit) = source?.rsplit_once('#')?;
    // The `?` begins a branch or tag. The commit is exact.
    let url = url.split('?').next()?;
    // A user's name in a web address may be a token, which does not belong in a manifest.
    let has_user = url.starts_with("http") && url.contains('@');
    (!has_user).then(|| format!("{url}#{commit}"))
}

/// The checkout that this command was built from. Without one, the project depends on the released version.
fn checkout() -> Option<String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = dunce::canonicalize(own).ok()?;
    let is_checkout = own.join("crates/sqs-once/Cargo.toml").is_file();
    // A path in a manifest must be UTF-8.
    let own = own.to_str()?.to_owned();
    // Cargo deletes its own checkouts, which `cargo install --git` makes.
    let is_kept = !own.replace('\\', "/").contains("/git/checkouts/");
    (is_checkout && is_kept).then_some(own)
}

fn summary(args: &NewArgs, paths: &[&str], source: Option<&str>) -> String {
    let name = &args.name;
    let is_postgres = args.effect == Effect::Postgres;
    let mut text = format!("created {name}:\n");
    for path in paths {
        text.push_str(&format!("  {path}\n"));
    }
    let source = source.map(print::one_line);
    text.push_str(&match source.as_deref() {
        Some(url) if url.contains("://") => format!(
            "\nIt depends on the commit of sqs-once that this command was built from:\n  {url}\n\
             For another source, change `git` and `rev` in its Cargo.toml.\n"
        ),
        Some(checkout) => format!(
            "\nIt depends on the checkout of sqs-once that this command was built from, {checkout}, so it builds on this\n\
             machine only. For another source, change `path` in its Cargo.toml to `version` or `git`.\n"
        ),
        None => "\nIt depends on the sqs-once of crates.io. For another source, change `version` in its Cargo.toml to `git`\n\
                 or `path`.\n"
            .to_owned(),
    });
    text.push_str(&format!("\nnext:\n  cd {name}\n"));
    if is_postgres {
        text.push_str("  start PostgreSQL as README.md says, and then\n");
    }
    text.push_str("  cargo test\n");
    // For the template that `invoke` reads. With PostgreSQL, CDK first needs the database, and `invoke` no template.
    if args.iac == Iac::Cdk && !is_postgres {
        text.push_str("  (cd cdk && npm ci && npx cdk ls)\n");
    }
    text.push_str("  cargo sqs-once invoke events/orders.json\n");
    text.push_str(&format!("  {}", args.iac.deploy()));
    text
}
