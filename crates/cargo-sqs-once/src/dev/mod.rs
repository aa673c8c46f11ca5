//! `cargo sqs-once dev`: a local queue drives the real binary, which is rebuilt on every change.

mod args;
mod build;
mod fault;
mod outage;
mod pace;
mod plan;
#[cfg(feature = "aws")]
mod remote;
mod send;
mod show;
mod watch;

pub(crate) use args::DevArgs;

use crate::error::INTERRUPTED;
use crate::launch::{self, Storage, Subject};
use crate::print::{self, Style};
use crate::private;
use anyhow::{Context, Result, bail, ensure};
use build::Builder;
use fault::Fault;
use humantime::format_duration;
use outage::Outages;
use plan::Plan;
use show::{Show, Shown};
use sqs_once_local::{
    FaultControls, Faults, Launch, Limits, LocalEvent, LocalQueue, LocalSqs, NewMessage, Observer,
    Page, PageControls, Poller, Queues, REGION, Source, Story,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) async fn dev(args: DevArgs) -> Result<()> {
    let is_remote = args.queue_url().is_some();
    let settings = &args.settings;
    let is_local = settings.fifo || settings.visibility_timeout.is_some() || !args.send.is_empty();
    ensure!(
        !(is_remote && is_local),
        "--send, --fifo and --visibility-timeout are for a local queue, and --queue names another one"
    );
    #[cfg(feature = "aws")]
    if let Some(url) = args.queue_url() {
        remote::check(url, args.region.as_deref())?;
    }
    let subject = Subject::find(&args.function)?;
    let mut plan = Plan::new(
        subject.template.as_ref(),
        subject.function(),
        &subject.binary.name,
        args.queue.as_deref().filter(|_| !is_remote),
        &args.settings,
    )?;
    plan.poller.until_empty = args.until_empty;
    // Read the messages before the build, so that an error in them shows at once.
    let messages = to_send(&args.send, &plan.queue)?;
    let report = args.report.clone();
    if let Some(path) = &report {
        // The file's content stays until a new report replaces it.
        private::append(path).with_context(|| no_report(path))?;
    }

    let since = SystemTime::now();
    let executable = subject.build(args.format.is_json())?;
    let ports = [args.port(2), args.port(3)];
    let storage = subject.storage(args.function.reset, ports).await?;
    let story = story(args.queue_url(), &plan);
    let told = story.clone();
    let run = Run {
        show: Show::start(&args, plan.dead_letters.clone()),
        story,
        subject: Arc::new(subject),
        storage,
        plan,
        args,
    };
    let ended = run.run((executable, since), messages).await;
    let reported = report.map_or(Ok(()), |path| {
        private::write(&path, &told.report()).with_context(|| no_report(&path))?;
        print::note(&format!("report: {}", path.display()));
        Ok(())
    });
    if let (Err(error), Err(_)) = (&reported, &ended) {
        print::error(error);
    }
    ended.and(reported)
}

fn no_report(path: &Path) -> String {
    format!("the report can't be written to {}", path.display())
}

/// Creates the story of the polled queue, and of its dead-letter queue if that is known.
fn story(queue_url: Option<&str>, plan: &Plan) -> Story {
    let (queue, dead_letters) = match queue_url {
        // The last part of a queue's URL is its name.
        Some(url) => (url.rsplit('/').next().unwrap_or(url), None),
        None => (&*plan.queue, plan.dead_letters.as_deref()),
    };
    Story::new(queue, dead_letters, Limits::default())
}

/// Reads the messages of `--send`, in order.
fn to_send(paths: &[PathBuf], queue: &str) -> Result<Vec<NewMessage>> {
    let mut messages = Vec::new();
    for path in paths {
        let text = launch::read_event(path)?;
        let sent = send::messages(&text, queue);
        let unsent = || format!("the messages in {} can't be sent", path.display());
        let sent = sent.with_context(unsent)?;
        messages.extend(sent);
    }
    Ok(messages)
}

struct Run {
    args: DevArgs,
    plan: Plan,
    subject: Arc<Subject>,
    storage: Storage,
    show: Show,
    story: Story,
}

impl Run {
    async fn run(
        self,
        (executable, since): (PathBuf, SystemTime),
        messages: Vec<NewMessage>,
    ) -> Result<()> {
        let sqs = Arc::new(self.queues().await?);
        let faults = FaultControls::new(self.faults());
        let page = self.page(&sqs, &faults).await?;
        let launch = self.launch(executable.clone(), &sqs);
        let builder = Builder::new(
            &self.subject,
            self.args.format.is_json(),
            (executable, since),
        );
        let launch = builder.copied(launch)?;
        self.introduce(&sqs, &page, faults.get());
        for message in messages {
            let mut queues = sqs.queues();
            queues.send(&self.plan.queue, message, SystemTime::now())?;
        }
        let faulty = self.args.faults.faults.iter();
        let played = faulty.filter_map(|fault| match fault {
            Fault::Outage(outage) => Some(outage),
            Fault::Share(..) => None,
        });
        // Until the end of the run.
        let _outages = Outages::begin(
            played.collect(),
            &self.storage.dynamodb,
            &self.subject.table,
        )?;
        match self.args.queue_url() {
            None => {
                let source = LocalQueue::new(&sqs, &self.plan.queue);
                self.drive(source, faults, builder, launch).await?;
            }
            #[cfg(feature = "aws")]
            Some(url) => {
                let source =
                    remote::RemoteQueue::connect(url, self.args.region.as_deref(), self.observer())
                        .await?;
                let launch = source.for_function(launch);
                let arn = source.arn();
                print::note(&format!(
                    "polling {arn}: this run deletes the messages that it handles, and no other consumer gets them"
                ));
                self.drive(source, faults, builder, launch).await?;
            }
            #[cfg(not(feature = "aws"))]
            Some(_) => bail!(
                "this build of cargo-sqs-once does not support AWS: build it with the feature `aws` to poll a real queue"
            ),
        }
        self.storage.print_executions();
        end(&mut self.show.end(), &self.plan, &self.args, &sqs)
    }

    /// Starts the local queues. With a real queue, they are not polled but the function can send to them.
    async fn queues(&self) -> Result<LocalSqs> {
        let mut queues = Queues::default();
        queues.observe(self.observer());
        self.plan.create(&mut queues)?;
        let port = self.args.port(0);
        let started = LocalSqs::start_on(port, queues).await;
        let taken = "another --port may be free";
        started
            .with_context(|| format!("the local queues can't listen on 127.0.0.1:{port}; {taken}"))
    }

    /// Starts the web page. It changes nothing in a queue that is not local.
    async fn page(&self, sqs: &Arc<LocalSqs>, faults: &FaultControls) -> Result<Page> {
        let controls = PageControls {
            sqs: self.args.queue_url().is_none().then(|| Arc::clone(sqs)),
            samples: Some(self.subject.workspace.root().join("events")),
            faults: Some(faults.clone()),
        };
        Ok(Page::start(self.story.clone(), controls, self.args.port(1)).await?)
    }

    /// Sends events to the terminal and to the page.
    fn observer(&self) -> Observer {
        let (show, story) = (self.show.observer(), self.story.observer());
        Arc::new(move |at, happening: &LocalEvent| {
            // First the page, so that it has whatever the terminal shows.
            story(at, happening);
            show(at, happening);
        })
    }

    fn launch(&self, executable: PathBuf, sqs: &LocalSqs) -> Launch {
        let launch = self.subject.launch(executable, &self.storage, sqs);
        // This program handles Ctrl-C and lets the function finish.
        let mut launch = launch.own_group();
        if self.args.queue_url().is_some() {
            // A dead letter in a local queue would be lost after this run. An empty variable means no dead-letter
            // queue, so a message that can't succeed returns to its own queue.
            launch = launch.env("SQS_ONCE_DLQ_URL", "");
        }
        launch
    }

    fn faults(&self) -> Faults {
        let given = &self.args.faults;
        let by_time = || {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            u64::from(since.unwrap_or_default().subsec_nanos())
        };
        let mut faults = Faults {
            seed: given.seed.unwrap_or_else(by_time),
            ..Faults::default()
        };
        for fault in &given.faults {
            if let Fault::Share(kind, share) = fault {
                *fault::share(&mut faults, kind) = *share;
            }
        }
        faults
    }

    /// Prints what runs and how to send messages to it.
    fn introduce(&self, sqs: &LocalSqs, page: &Page, mut faults: Faults) {
        let poller = &self.plan.poller;
        let queue = self.args.queue_url().unwrap_or(&self.plan.queue);
        print::note(&format!(
            "polling {queue}: batches of up to {}, window {}, up to {} environments, timeout {}",
            poller.batch_size,
            format_duration(poller.window),
            poller.concurrency,
            format_duration(poller.timeout)
        ));
        if let Some(dead_letters) = &self.plan.dead_letters {
            print::note(&format!("dead letters: {dead_letters}"));
        }
        if self.args.queue_url().is_none() {
            for warning in &self.plan.warnings {
                print::styled_note(Style::Bad, &format!("warning: {warning}"));
            }
            self.introduce_queue(sqs);
        }
        self.introduce_storage(sqs);
        print::note(&format!("page: {}", page.url()));
        launch::print_differences(&self.subject.differences(sqs));
        let shares = fault::KINDS.map(|kind| (kind, *fault::share(&mut faults, kind)));
        let asked = shares.iter().filter(|(_, share)| !share.is_zero());
        let asked: Vec<_> = asked
            .map(|(kind, share)| format!("{kind}={share}"))
            .collect();
        if !asked.is_empty() {
            let (asked, seed) = (asked.join(", "), faults.seed);
            print::note(&format!("faults: {asked}; --seed {seed} repeats them"));
        }
    }

    /// Prints how to send a message. It is one that the function understands, if the project has samples.
    fn introduce_queue(&self, sqs: &LocalSqs) {
        let (endpoint, url) = (sqs.endpoint(), sqs.url(&self.plan.queue));
        let group = match self.plan.queue.ends_with(".fifo") {
            true => " --message-group-id a",
            false => "",
        };
        let samples = self.subject.workspace.root().join("events");
        let body = send::sample(&samples).replace('\'', r"'\''");
        print::note(&format!(
            "SQS: {endpoint}, queue URL: {url}\n  aws sqs send-message --no-sign-request --region {REGION} \
             --endpoint-url {endpoint} --queue-url {url}{group} --message-body '{body}'"
        ));
    }

    /// Prints where the tables and objects are, and what other programs need in their environment.
    fn introduce_storage(&self, sqs: &LocalSqs) {
        let Storage { dynamodb, s3, .. } = &self.storage;
        let (dynamodb, s3) = (dynamodb.endpoint(), s3.endpoint());
        let tables = self.subject.tables().into_iter();
        let tables: Vec<_> = tables.map(|table| &*table.name).collect();
        let (folder, table) = (self.subject.objects.display(), &self.subject.table.name);
        print::note(&format!(
            "DynamoDB: {dynamodb}, tables: {}",
            tables.join(", ")
        ));
        print::note(&format!("S3: {s3}, folder: {folder}"));
        let sqs = match self.args.queue_url() {
            None => format!(" AWS_ENDPOINT_URL_SQS={}", sqs.endpoint()),
            Some(_) => String::new(),
        };
        print::note(&format!(
            "for `key`, `dlq` and other programs:\n  export{sqs} AWS_ENDPOINT_URL_DYNAMODB={dynamodb} \
             AWS_ENDPOINT_URL_S3={s3} AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION} AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local \
             SQS_ONCE_TABLE={table}"
        ));
    }

    /// Polls, rebuilds and handles Ctrl-C until the poller ends.
    async fn drive<S: Source>(
        &self,
        source: S,
        faults: FaultControls,
        builder: Builder,
        launch: Launch,
    ) -> Result<()> {
        let poller = Poller::new(source, launch.clone(), self.plan.poller.clone());
        let poller = poller.faults(faults).observe(self.observer());
        let controls = poller.controls();
        self.show.controls(controls.clone());
        let mut run = std::pin::pin!(poller.run());
        let build = builder.on_change(launch, controls.clone());
        tokio::select! {
            ended = &mut run => return Ok(ended?),
            () = build => {}
            () = interrupted() => {}
        }
        controls.stop();
        print::note("ending after the invocations in flight; press Ctrl-C again to end at once");
        tokio::select! {
            ended = &mut run => Ok(ended?),
            () = interrupted() => bail!(INTERRUPTED),
        }
    }
}

fn end(shown: &mut Shown, plan: &Plan, args: &DevArgs, sqs: &LocalSqs) -> Result<()> {
    print::note(&shown.summary());
    let queues = sqs.queues();
    if args.queue_url().is_some() {
        for name in queues.names() {
            let count = queues.len(name)?;
            if count > 0 {
                let text = format!("lost with the local queue {name}: {count}");
                print::styled_note(Style::Bad, &text);
            }
        }
        return shown.written();
    }
    let left = queues.len(&plan.queue)?;
    let mut text = format!("left in {}: {left}", plan.queue);
    let mut dead = 0;
    if let Some(dead_letters) = &plan.dead_letters {
        dead = queues.len(dead_letters)?;
        text.push_str(&format!(", in {dead_letters}: {dead}"));
    }
    print::note(&text);
    shown.written()?;
    if args.until_empty && dead > 0 {
        let messages = print::counted(dead as u64, "message is", "messages are");
        bail!("{messages} in the dead-letter queue");
    }
    if args.until_empty && left > 0 && shown.is_read() {
        bail!(INTERRUPTED);
    }
    Ok(())
}

/// Waits for Ctrl-C or a termination signal.
async fn interrupted() {
    #[cfg(unix)]
    let asked = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let asked = std::future::pending();
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => {}
        () = asked => {}
    }
}
