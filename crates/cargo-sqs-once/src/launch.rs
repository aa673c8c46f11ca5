//! Prepares a run of the function for `invoke` and `dev`: its event, template, table and environment variables.

use crate::cli::FunctionArgs;
use crate::print::{self, one_line};
use crate::workspace::{Binary, Workspace};
use anyhow::{Context, Result};
use serde_json::Value;
use sqs_once_doctor::Function;
use sqs_once_local::{
    Launch, LocalDynamoDb, LocalExecutions, LocalS3, LocalSqs, TableDescription, Template,
};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default timeout of the function.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_MEMORY_MB: u32 = 128;

/// The function to run, with its template and its table.
pub(crate) struct Subject {
    pub(crate) workspace: Workspace,
    pub(crate) binary: Binary,
    release: bool,
    pub(crate) template_file: Option<PathBuf>,
    pub(crate) template: Option<Template>,
    pub(crate) table: TableDescription,
    /// The items to put at the start, by their table.
    items: Vec<(String, Value)>,
    /// The folder that is S3.
    pub(crate) objects: PathBuf,
}

/// Where the function's tables, objects and executions are.
pub(crate) struct Storage {
    pub(crate) dynamodb: LocalDynamoDb,
    pub(crate) s3: LocalS3,
    pub(crate) executions: LocalExecutions,
}

impl Storage {
    /// Prints the executions that the function has started.
    pub(crate) fn print_executions(&self) {
        for execution in self.executions.all() {
            let target = execution.target.rsplit(':').next().unwrap_or_default();
            let (name, input) = (&execution.name, one_line(&execution.input));
            print::note(&format!(
                "started the execution {name} of {target}: {input}"
            ));
        }
    }
}

impl Subject {
    pub(crate) fn find(args: &FunctionArgs) -> Result<Self> {
        let workspace = Workspace::find()?;
        let template_file = workspace.template(args.template.as_deref());
        let template = template_file.as_deref().map(read_template).transpose()?;
        let only = template.as_ref().and_then(|it| it.function(None));
        let named = only.and_then(|function| function.binary.known());
        let binary = workspace.function(args.function.as_deref(), named.map(String::as_str))?;
        let objects = args.s3.clone().unwrap_or_else(|| workspace.objects());
        let mut subject = Self {
            workspace,
            release: args.release,
            template_file,
            // A project of `new` has this name, its stack and its function.
            template: template.map(|template| template.in_stack(&binary.name)),
            binary,
            table: TableDescription::default(),
            items: items(args.items.as_deref())?,
            objects,
        };
        if let Some(template) = &subject.template {
            subject.table = template.table(subject.function())?;
        }
        Ok(subject)
    }

    /// Builds the binary and returns its path, as [`Workspace::build`] does.
    pub(crate) fn build(&self, quiet: bool) -> Result<PathBuf> {
        self.workspace.build(&self.binary, self.release, quiet)
    }

    pub(crate) fn function(&self) -> Option<&Function> {
        let template = self.template.as_ref()?;
        template.function(Some(&self.binary.name))
    }

    /// The tables of a run. The function may write to the template's other tables as well.
    pub(crate) fn tables(&self) -> Vec<&TableDescription> {
        let others = self.template.iter().flat_map(Template::tables);
        let others = others.filter(|other| other.name != self.table.name);
        std::iter::once(&self.table).chain(others).collect()
    }

    /// Starts the local DynamoDB, with all tables and the items of `--items`, and the local S3, on these ports. 0 is a free one.
    pub(crate) async fn storage(&self, reset: bool, ports: [u16; 2]) -> Result<Storage> {
        let database = self.workspace.database();
        if reset {
            LocalDynamoDb::remove(&database)?;
        }
        let dynamodb = LocalDynamoDb::open_on(ports[0], &database).await?;
        for table in self.tables() {
            dynamodb.create_table(table)?;
        }
        for (table, item) in &self.items {
            let unput = || {
                let tables = self.tables().into_iter().map(|table| &*table.name);
                let tables = tables.collect::<Vec<_>>().join(", ");
                format!(
                    "an item of --items can't be put into the table `{table}`; the tables are: {tables}"
                )
            };
            let put = dynamodb.put_item(table, item.clone());
            put.with_context(unput)?;
        }
        let s3 = LocalS3::start(&self.objects, ports[1]).await;
        let s3 = s3.context("the local S3 can't listen on 127.0.0.1")?;
        let executions = LocalExecutions::start(0).await;
        let executions = executions.context("the local executions can't listen on 127.0.0.1")?;
        Ok(Storage {
            dynamodb,
            s3,
            executions,
        })
    }

    /// Launches the function with the template's settings and with local services only.
    pub(crate) fn launch(&self, executable: PathBuf, storage: &Storage, sqs: &LocalSqs) -> Launch {
        let function = self.function();
        let memory_mb = function.and_then(|function| function.memory_mb.known().copied());
        let mut launch = Launch::new(executable)
            .memory_mb(memory_mb.unwrap_or(DEFAULT_MEMORY_MB))
            .dynamodb(&storage.dynamodb)
            .env("AWS_ENDPOINT_URL_LAMBDA", storage.executions.endpoint())
            .env("AWS_ENDPOINT_URL_S3", storage.s3.endpoint())
            .env("AWS_ENDPOINT_URL_SFN", storage.executions.endpoint())
            .env("AWS_ENDPOINT_URL_SQS", sqs.endpoint());
        for (name, value) in self.environment(sqs) {
            let Ok(value) = value else { continue };
            // A variable in the user's shell overrides the template's, but not with the URL of a real queue.
            if std::env::var_os(&name).is_none() || value.starts_with(&sqs.endpoint()) {
                launch = launch.env(name, value);
            }
        }
        for (name, value) in own_endpoints() {
            launch = launch.env(name, value);
        }
        // Use the local table, even if the shell names the real one.
        launch.env("SQS_ONCE_TABLE", &self.table.name)
    }

    /// How the run differs from a deployment, one line each: a function that is not in the template, its variables without
    /// a value here, and the user's own endpoints.
    pub(crate) fn differences(&self, sqs: &LocalSqs) -> Vec<String> {
        let name = &self.binary.name;
        let undescribed = match (&self.template, self.function()) {
            (None, _) => Some(
                "there is no template in this folder, so the function has the shell's variables alone; \
                 --template names one"
                    .to_owned(),
            ),
            (Some(_), None) => Some(format!(
                "no function of the template has the binary `{name}`, so it has the shell's variables alone; \
                 correct BuildProperties.Binary of its function, or pick another with --function"
            )),
            _ => None,
        };
        let environment = self.environment(sqs).into_iter();
        let unset = environment.filter_map(|(name, value)| {
            // The table is always set.
            let is_set = std::env::var_os(&name).is_some() || name == "SQS_ONCE_TABLE";
            let reason = value.err().filter(|_| !is_set)?;
            let fix = format!("set it in the shell: {name}=…");
            Some(format!("{name} is not set, because {reason}; {fix}"))
        });
        let own = own_endpoints();
        let own = own.map(|(name, value)| {
            let advice = match is_silent(&value) {
                true => ", where nothing listens; unset it",
                false => "",
            };
            format!("{name} is the shell's: {value}{advice}")
        });
        undescribed.into_iter().chain(unset).chain(own).collect()
    }

    fn environment(&self, sqs: &LocalSqs) -> Vec<(String, Result<String, String>)> {
        match (&self.template, self.function()) {
            (Some(template), Some(function)) => {
                template.environment(function, |queue| sqs.url(queue))
            }
            _ => Vec::new(),
        }
    }
}

fn read_template(path: &Path) -> Result<Template> {
    let unusable = || format!("the template {} can't be used", path.display());
    Template::read(path).with_context(unusable)
}

/// The endpoints that the user has chosen for single services.
fn own_endpoints() -> impl Iterator<Item = (String, String)> {
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables.filter(|(name, value)| name.starts_with("AWS_ENDPOINT_URL_") && !value.is_empty())
}

/// Returns whether nothing listens at an endpoint on this machine, such as that of a run that has ended.
fn is_silent(endpoint: &str) -> bool {
    let address = endpoint.strip_prefix("http://").unwrap_or_default();
    let address: Option<SocketAddr> = address.trim_end_matches('/').parse().ok();
    let local = address.filter(|address| address.ip().is_loopback());
    local.is_some_and(|address| TcpStream::connect(address).is_err())
}

/// Reads the items of `--items`, in the form of its help.
fn items(file: Option<&Path>) -> Result<Vec<(String, Value)>> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let unread = || format!("the items in {} can't be read", file.display());
    let text = std::fs::read_to_string(file).with_context(unread)?;
    let malformed = || {
        let file = file.display();
        format!(r#"the items in {file} have not the form {{"TABLE": [{{"id": {{"S": "o-1"}}}}]}}"#)
    };
    let tables: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&text).with_context(malformed)?;
    let items = tables.into_iter();
    let items =
        items.flat_map(|(table, items)| items.into_iter().map(move |it| (table.clone(), it)));
    Ok(items.collect())
}

pub(crate) fn print_differences(differences: &[String]) {
    for difference in differences {
        print::styled_note(print::Style::Bad, difference);
    }
}

pub(crate) fn read_event(path: &Path) -> Result<String> {
    let read = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.with_context(|| format!("the event {} can't be read", path.display()))
}
