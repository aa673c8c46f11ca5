//! `cargo sqs-once new`: creates a project that builds, tests, lints and deploys.

mod project;
mod template;

use crate::print;
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::path::{Path, PathBuf};
use template::Choices;

const EXAMPLES: &str = "\
Examples:
  cargo sqs-once new payments
  cargo sqs-once new payments --fifo --transactional
  cargo sqs-once new payments --sns --postgres
  cargo sqs-once new payments --iac terraform

The same by cargo-lambda, in a checkout of sqs-once:
  cargo lambda new payments --template crates/cargo-sqs-once/template";

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

    /// Put an SNS topic in front of the queue; the function unwraps its envelope
    #[arg(long)]
    sns: bool,

    /// Let the effect be DynamoDB writes, which commit together with the record of the message's key
    #[arg(long, conflicts_with = "postgres")]
    transactional: bool,

    /// Let the effect be in PostgreSQL, in the transaction that records the message's key
    #[arg(long)]
    postgres: bool,

    /// The tool that deploys the project
    #[arg(long, value_enum, default_value_t = Iac::Sam)]
    iac: Iac,

    /// The sqs-once to depend on: a checkout's folder, a git URL, or `released`
    ///
    /// By default, the project depends on the checkout that this command was built from. Without a checkout, it depends
    /// on the released version.
    #[arg(long, value_name = "SOURCE")]
    sqs_once: Option<PathBuf>,

    /// Write the list of created files to standard output as JSON
    #[arg(long)]
    json: bool,
}

/// The tools that can deploy a project.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Iac {
    /// AWS SAM
    Sam,
    /// Terraform or OpenTofu
    Terraform,
    /// AWS CDK, in TypeScript
    Cdk,
}

impl Iac {
    /// The value of the template's variable `iac`.
    fn variable(self) -> &'static str {
        match self {
            Iac::Sam => "sam",
            Iac::Terraform => "terraform",
            Iac::Cdk => "cdk",
        }
    }

    /// The command that deploys the project.
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

    /// The command that writes the template that `invoke` reads, if it is not in the project. With PostgreSQL, CDK first
    /// needs the database, and `invoke` needs no template.
    fn synthesise(self) -> Option<&'static str> {
        match self {
            Iac::Sam | Iac::Terraform => None,
            Iac::Cdk => Some("(cd cdk && npm ci && npx cdk ls)"),
        }
    }
}

/// Creates the project in the current folder.
pub(crate) fn new(args: NewArgs) -> Result<()> {
    let here = std::env::current_dir().context("the current folder can't be found")?;
    let choices = Choices {
        fifo: args.fifo,
        sns: args.sns,
        effect: match (args.transactional, args.postgres) {
            (true, _) => "dynamodb",
            (false, true) => "postgres",
            (false, false) => "elsewhere",
        },
        iac: args.iac.variable(),
        sqs_once: source(args.sqs_once.as_deref())?,
    };
    let files = template::render(&args.name, &choices)?;
    project::write(&here, &args.name, &files)?;
    let paths: Vec<&str> = files.iter().map(|file| &*file.path).collect();
    if args.json {
        let folder = here.join(&args.name);
        let folder = folder.to_string_lossy();
        return print::json(
            &json!({ "name": args.name, "folder": folder, "sqs_once": choices.sqs_once, "files": paths }),
        );
    }
    print::result(summary(&args, &paths, choices.sqs_once.as_deref()))
}

/// The checkout or git URL that the project depends on. `None` is the released version.
fn source(given: Option<&Path>) -> Result<Option<String>> {
    match given.map(|given| (given, given.to_str())) {
        Some((_, Some("released"))) => Ok(None),
        Some((_, Some(url))) if url.contains("://") => Ok(Some(url.to_owned())),
        Some((folder, _)) => checkout(folder).map(Some),
        None => {
            let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let own = checkout(&own).ok();
            // Cargo deletes its own checkouts, which `cargo install --git` makes.
            Ok(own.filter(|own| !own.replace('\\', "/").contains("/git/checkouts/")))
        }
    }
}

/// The absolute path of the checkout, because the project is in another folder.
fn checkout(folder: &Path) -> Result<String> {
    let no_checkout = || {
        let folder = print::one_line(&folder.display().to_string());
        anyhow!("{folder} is not a checkout of sqs-once: it has no crates/sqs-once/Cargo.toml")
    };
    let folder = dunce::canonicalize(folder).map_err(|_| no_checkout())?;
    if !folder.join("crates/sqs-once/Cargo.toml").is_file() {
        return Err(no_checkout());
    }
    // A path in a manifest must be UTF-8.
    folder.to_str().map(str::to_owned).ok_or_else(no_checkout)
}

/// Formats the created files and the next steps.
fn summary(args: &NewArgs, paths: &[&str], source: Option<&str>) -> String {
    let name = &args.name;
    let mut text = format!("created {name}:\n");
    for path in paths {
        text.push_str(&format!("  {path}\n"));
    }
    if args.sqs_once.is_none()
        && let Some(checkout) = source
    {
        let checkout = print::one_line(checkout);
        text.push_str(&format!(
            "\nIt depends on the checkout of sqs-once that this command was built from, {checkout}, so it builds on this\n\
             machine only. For another source: --sqs-once FOLDER, --sqs-once https://…, --sqs-once released\n"
        ));
    }
    text.push_str(&format!("\nnext:\n  cd {name}\n"));
    if args.postgres {
        text.push_str("  start PostgreSQL as README.md says, and then\n");
    }
    text.push_str("  cargo test\n");
    if let Some(synthesise) = args.iac.synthesise().filter(|_| !args.postgres) {
        text.push_str(&format!("  {synthesise}\n"));
    }
    text.push_str("  cargo sqs-once invoke events/orders.json\n");
    text.push_str(&format!("  {}", args.iac.deploy()));
    text
}
