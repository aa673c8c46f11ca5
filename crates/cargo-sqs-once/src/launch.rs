//! Prepares a run of the function for `invoke` and `dev`: its event, template, table and environment variables.

use crate::cli::FunctionArgs;
use crate::workspace::{Binary, Workspace};
use anyhow::{Context, Result};
use sqs_once_doctor::Function;
use sqs_once_local::{Launch, LocalDynamoDb, LocalSqs, TableDescription, Template};
use std::io::Read;
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
}

impl Subject {
    pub(crate) fn find(args: &FunctionArgs) -> Result<Self> {
        let workspace = Workspace::find()?;
        let template_file = workspace.template(args.template.as_deref());
        let template = template_file.as_deref().map(Template::read).transpose()?;
        let only = template.as_ref().and_then(|it| it.function(None));
        let named = only.and_then(|function| function.binary.known());
        let binary = workspace.function(args.function.as_deref(), named.map(String::as_str))?;
        let mut subject = Self {
            workspace,
            binary,
            release: args.release,
            template_file,
            template,
            table: TableDescription::default(),
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

    /// The function in the template.
    pub(crate) fn function(&self) -> Option<&Function> {
        let template = self.template.as_ref()?;
        template.function(Some(&self.binary.name))
    }

    /// The local DynamoDB with every table of the template.
    pub(crate) async fn dynamodb(&self, reset: bool) -> Result<LocalDynamoDb> {
        let database = self.workspace.database();
        if reset {
            LocalDynamoDb::remove(&database)?;
        }
        let dynamodb = LocalDynamoDb::open(&database).await?;
        dynamodb.create_table(&self.table)?;
        // The function may write to the template's other tables as well.
        let template = self.template.as_ref();
        for other in template.map_or(&[][..], Template::tables) {
            dynamodb.create_table(other)?;
        }
        Ok(dynamodb)
    }

    /// Launches the function with the template's settings and with local services only.
    pub(crate) fn launch(
        &self,
        executable: PathBuf,
        dynamodb: &LocalDynamoDb,
        sqs: &LocalSqs,
    ) -> Launch {
        let function = self.function();
        let memory_mb = function.and_then(|function| function.memory_mb.known().copied());
        let mut launch = Launch::new(executable)
            .memory_mb(memory_mb.unwrap_or(DEFAULT_MEMORY_MB))
            .dynamodb(dynamodb)
            .env("AWS_ENDPOINT_URL_SQS", sqs.endpoint());
        let environment = self.of_template(Template::environment);
        for (name, value) in environment {
            // A variable in the user's shell overrides the template's.
            if std::env::var_os(&name).is_none() {
                launch = launch.env(name, value);
            }
        }
        // Use the local table and queues, even if the template or the shell names the real ones.
        for (name, queue) in self.of_template(Template::queue_urls) {
            launch = launch.env(name, sqs.url(&queue));
        }
        launch.env("SQS_ONCE_TABLE", &self.table.name)
    }

    /// Variables of the function in the template.
    fn of_template(
        &self,
        variables: fn(&Template, &Function) -> Vec<(String, String)>,
    ) -> Vec<(String, String)> {
        match (&self.template, self.function()) {
            (Some(template), Some(function)) => variables(template, function),
            _ => Vec::new(),
        }
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
