//! Runs `cargo sqs-once new` as a user does. `.ci/new.py` checks that the projects build and pass their tests, and what
//! their templates deploy.

use crate::project::{Project, Run, Runs, command_of};
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::{Value, json};
use sqs_once_local::{ACCOUNT_ID, REGION};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The folder in which a test creates projects.
struct Folder(Project);

impl Folder {
    fn new() -> Self {
        Self(Project::empty())
    }

    /// Creates a project and returns its files by path.
    fn make(&self, arguments: &[&str]) -> BTreeMap<String, String> {
        self.done(arguments);
        let mut files = BTreeMap::new();
        let project = self.0.path(arguments[0]);
        read(&project, &project, &mut files);
        files
    }

    /// The names of all entries, hidden ones included.
    fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

impl Runs for Folder {
    fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.0.command("new", arguments))
    }
}

fn read(project: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(project, &path, files);
        } else {
            let name = path.strip_prefix(project).unwrap().to_str().unwrap();
            files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
}

/// Every combination of the options, each with its own name.
fn variants() -> Vec<(String, Vec<&'static str>)> {
    let mut variants = Vec::new();
    for queue in [None, Some("--fifo")] {
        for source in [None, Some("--source=sns"), Some("--source=bus")] {
            for effect in [None, Some("--effect=dynamodb"), Some("--effect=postgres")] {
                let options: Vec<_> = [queue, source, effect].into_iter().flatten().collect();
                let choices = options
                    .iter()
                    .filter_map(|one| one.rsplit(['-', '=']).next());
                let name = ["payments"].into_iter().chain(choices).collect::<Vec<_>>();
                let name = name.join("-");
                variants.push((name, options));
            }
        }
    }
    variants
}

fn assert_rendered(name: &str, files: &BTreeMap<String, String>) {
    for (file, content) in files {
        // JSONata of an event bus begins with the same characters.
        let tags = content.matches("{%").count() - content.matches("{% $").count();
        assert_eq!(tags, 0, "{name}: {file} is not rendered");
        assert!(!content.is_empty(), "{name}: {file} is empty");
        assert!(content.ends_with('\n') && !content.ends_with("\n\n"));
        assert!(!content.starts_with('\n'), "{name}: {file}");
        assert!(!content.contains("\n\n\n"), "{name}: {file} has holes");
    }
}

/// Checks that a workflow pins every action by its commit, and every tool, image and machine by its version.
fn assert_pinned(workflow: &str) {
    Yaml::load_from_str(workflow).unwrap();
    let after = |name| {
        let values = workflow.lines();
        let values = values.filter_map(move |line| line.split_once(name));
        values.map(|(_, value)| value.trim())
    };
    for action in after("uses: ") {
        let (_, commit) = action.split_once('@').unwrap();
        let commit = commit.split(' ').next().unwrap();
        let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_hash, "{action}");
    }
    for tool in after("pip install ").flat_map(|tools| tools.split(' ')) {
        assert!(tool.contains("=="), "{tool}");
    }
    for moving in ["latest", "rustup update", "stable"] {
        assert!(!workflow.contains(moving), "{moving}");
    }
}

#[test]
fn every_variant_is_a_whole_project() {
    let folder = Folder::new();
    for (name, options) in variants() {
        let files = folder.make(&[&[&*name], &options[..]].concat());
        let always = ".github/workflows/ci.yml .gitignore Cargo.toml README.md events/invalid.json
            events/orders.json samconfig.toml src/main.rs src/tests.rs template.yaml";
        for file in always.split_whitespace() {
            assert!(files.contains_key(file), "{name} has no {file}");
        }
        assert_rendered(&name, &files);
        // Nothing is released yet. The guides are those of the checkout.
        let guides = files["README.md"].split_once("(<file://").unwrap().1;
        let guides = Path::new(guides.split_once(">)").unwrap().0);
        assert!(guides.is_file(), "{}", guides.display());
        let links = files.values().find(|text| text.contains("docs.rs"));
        assert_eq!(links, None, "{name}");
        assert_pinned(&files[".github/workflows/ci.yml"]);
        let manifest = manifest(&files);
        assert_eq!(manifest["package"]["name"].as_str(), Some(&*name));
        let panic = &manifest["profile"]["release"]["panic"];
        assert_eq!(panic.as_str(), Some("unwind"));

        let has = |option| options.contains(&option);
        let of_its_effect = match (has("--effect=dynamodb"), has("--effect=postgres")) {
            (true, _) => "src/tables.rs",
            (_, true) => "migrations/2_orders.sql",
            _ => "src/warehouse.rs",
        };
        let of_effects = "CargoLambda.toml migrations/2_orders.sql src/tables.rs src/warehouse.rs";
        for file in of_effects.split_whitespace() {
            let is_there = files.contains_key(file);
            assert_eq!(is_there, file == of_its_effect, "{name}: {file}");
        }

        let sample: Value = serde_json::from_str(&files["events/orders.json"]).unwrap();
        let record = &sample["Records"][0];
        let group = &record["attributes"]["MessageGroupId"];
        assert_eq!(group.is_string(), has("--fifo"), "{name}");
        let body: Value = serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
        // The samples come from the project's own queue and topic.
        let suffix = if has("--fifo") { ".fifo" } else { "" };
        let own = format!("{REGION}:{ACCOUNT_ID}:{name}{suffix}");
        assert_eq!(record["eventSourceARN"], format!("arn:aws:sqs:{own}"));
        let topic = has("--source=sns").then(|| json!(format!("arn:aws:sns:{own}")));
        assert_eq!(body.get("TopicArn"), topic.as_ref(), "{name}");
        let of_bus = body["SystemMetadata"]["aws:DeliveryType"].is_string();
        assert_eq!(of_bus, has("--source=bus"), "{name}");
        if of_bus {
            assert_eq!(body["Data"]["order_id"], "o-1001", "{name}");
            assert_eq!(&body["SystemMetadata"]["EventGroupId"], group, "{name}");
        }
    }
}

/// Checks that each variant for a tool has exactly these files for its deployment, and otherwise SAM's.
fn assert_only_the_deployment_differs(iac: &str, deployment: &[String]) {
    let folder = Folder::new();
    let about_it = [".github/workflows/ci.yml", ".gitignore", "README.md"];
    for (name, options) in variants() {
        let mut sam = folder.make(&[&[&*name], &options[..]].concat());
        fs::remove_dir_all(folder.0.path(&name)).unwrap();
        let mut other = folder.make(&[&[&*name, "--iac", iac], &options[..]].concat());
        assert_rendered(&name, &other);
        for file in deployment {
            assert!(other.remove(file).is_some(), "{name} has no {file}");
        }
        assert_pinned(&other[".github/workflows/ci.yml"]);
        for file in about_it {
            let (sam, other) = (sam.remove(file).unwrap(), other.remove(file).unwrap());
            assert_ne!(sam, other, "{name}: {file}");
            let is_of_sam = other.contains("template.yaml") || other.contains("sam build");
            assert!(!is_of_sam, "{name}: {file}");
        }
        for file in ["template.yaml", "samconfig.toml"] {
            assert!(sam.remove(file).is_some(), "{name}: {file}");
        }
        assert_eq!(sam, other, "{name}");
    }
}

/// `.ci/cdk.py` and `.ci/terraform.py` check what the projects deploy.
#[test]
fn a_project_for_another_tool_has_another_deployment_and_the_same_function() {
    let cdk = "cdk/bin/app.ts cdk/cdk.json cdk/lib/sqs-once-consumer.ts cdk/package-lock.json
        cdk/package.json cdk/tsconfig.json";
    let module = "alarms dashboard main outputs queues table variables versions";
    let module = module.split(' ').map(|file| format!("consumer/{file}"));
    let all = module.chain(["main", "outputs", "variables", "versions"].map(str::to_owned));
    let terraform: Vec<_> = all.map(|file| format!("terraform/{file}.tf")).collect();
    let cdk: Vec<_> = cdk.split_whitespace().map(str::to_owned).collect();
    assert_only_the_deployment_differs("cdk", &cdk);
    assert_only_the_deployment_differs("terraform", &terraform);
}

/// The module in `deploy` is a link to it, which Windows may check out as a file.
#[cfg(unix)]
#[test]
fn the_module_of_a_project_is_the_published_one() {
    let files = Folder::new().make(&["payments", "--iac", "terraform"]);
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/terraform");
    for entry in fs::read_dir(published).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let made = &files[&format!("terraform/consumer/{name}")];
        assert_eq!(made, &fs::read_to_string(&path).unwrap(), "{name}");
    }
}

#[test]
fn the_packages_of_cdk_are_pinned_by_version_and_content() {
    let files = Folder::new().make(&["payments", "--iac", "cdk"]);
    let json = |file: &str| serde_json::from_str::<Value>(&files[file]).unwrap();
    let (package, lock) = (json("cdk/package.json"), json("cdk/package-lock.json"));
    for kind in ["dependencies", "devDependencies"] {
        assert_eq!(package[kind], lock["packages"][""][kind]);
        for (name, version) in package[kind].as_object().unwrap() {
            let version = version.as_str().unwrap();
            let is_exact = version.split('.').all(|part| part.parse::<u32>().is_ok());
            assert!(is_exact, "{name} {version}");
            let locked = &lock["packages"][format!("node_modules/{name}")];
            assert_eq!(locked["version"], version, "{name}");
        }
    }
    for (name, locked) in lock["packages"].as_object().unwrap() {
        let is_pinned = locked["inBundle"] == true || locked["integrity"].is_string();
        assert!(name.is_empty() || is_pinned, "{name}");
    }
}

fn manifest(files: &BTreeMap<String, String>) -> toml::Table {
    files["Cargo.toml"].parse().unwrap()
}

/// Before the first release, a project on the released version could not build.
#[test]
fn a_project_depends_on_the_checkout_of_the_command() {
    let folder = Folder::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = own.canonicalize().unwrap();
    let manifest = manifest(&folder.make(&["payments"]));
    let depended = manifest["dependencies"]["sqs-once"]["path"].as_str();
    let expected = format!("{}/crates/sqs-once", own.display());
    assert_eq!(depended, Some(&*expected));
    let run = folder.run(&["shipping"]);
    run.shows(&format!("built from, {}", own.display()));
    run.shows("change `path` in its Cargo.toml");
}

#[test]
fn the_migration_is_the_schema_of_the_store() {
    let files = Folder::new().make(&["payments", "--effect=postgres"]);
    let schema = include_str!("../../../sqs-once-postgres/schema/v1.sql");
    assert_eq!(files["migrations/1_processed_events.sql"], schema);
}

#[test]
fn no_password_of_a_database_is_in_the_functions_environment() {
    let files = Folder::new().make(&["payments", "--effect=postgres"]);
    let template = &Yaml::load_from_str(&files["template.yaml"]).unwrap()[0];
    let at = |path: &str| {
        let mut names = path.split('.');
        let found = names.try_fold(template, |yaml, name| yaml.as_mapping_get(name));
        found.unwrap_or_else(|| panic!("the template has no {path}"))
    };
    let variables = at("Resources.Function.Properties.Environment.Variables");
    for (name, value) in variables.as_mapping().unwrap() {
        let value = format!("{value:?}");
        for way in ["secretsmanager", "PASSWORD", "Password", "Secret"] {
            assert!(!value.contains(way), "{name:?}: {value}");
        }
    }
    // The URL names a certificate file, and a layer provides it.
    let layer = at("Resources.DatabaseCertificates.Properties.ContentUri");
    assert_eq!(layer.as_str(), Some("certificates"));
    let fetch = "--output certificates/global-bundle.pem https://truststore.pki.rds.amazonaws.com/";
    assert!(files["README.md"].contains(fetch));
}

#[test]
fn a_name_that_fits_nowhere_or_two_effects_are_wrong_usage() {
    let folder = Folder::new();
    let names = "Payments pay_ments 7payments pay--ments payments- ../payments /payments fn serde
        zahlungen-für-alle pay\u{1b}[31mments sqs-once test con com1 lpt9";
    let too_long = "a".repeat(61);
    for name in names.split_whitespace().chain(["", "pay ments", &too_long]) {
        folder.run(&[name]).assert_refused_with("expected");
    }
    folder
        .run(&["payments", "--effect=dynamodb", "--effect=postgres"])
        .assert_refused_with("");
    assert!(folder.entries().is_empty());
    folder.make(&["order-payments-2"]);
}

#[test]
fn what_is_there_already_is_not_touched() {
    let folder = Folder::new();
    folder.0.write("payments/notes", "mine");
    folder.fails(&["payments"], "payments already exists");
    assert_eq!(folder.entries(), ["payments"]);
    assert_eq!(folder.0.read("payments/notes"), "mine");
    let project = fs::read_dir(folder.0.path("payments"));
    assert_eq!(project.unwrap().count(), 1);

    folder.0.write("a-file", "mine");
    folder.fails(&["a-file"], "");
    assert_eq!(folder.0.read("a-file"), "mine");
}

#[test]
fn an_empty_folder_becomes_the_project() {
    let folder = Folder::new();
    fs::create_dir(folder.0.path("payments")).unwrap();
    assert!(folder.make(&["payments"]).contains_key("Cargo.toml"));
    assert_eq!(folder.entries(), ["payments"]);
}

/// A file-size limit of zero makes every write fail, as on a full disk.
#[cfg(unix)]
#[test]
fn a_project_that_can_not_be_written_is_not_there_at_all() {
    let folder = Folder::new();
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$0\" new payments";
    let mut sh = Command::new("sh");
    sh.args(["-c", limited, env!("CARGO_BIN_EXE_cargo-sqs-once")]);
    Run::of(sh.current_dir(folder.0.path(""))).assert_failed_with("payments can't be written");
    assert!(folder.entries().is_empty());
}

/// The user's umask sets the mode, as for `cargo new`, rather than the temporary folder's.
#[cfg(unix)]
#[test]
fn the_folder_is_as_open_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.make(&["payments"]);
    fs::create_dir(folder.0.path("another")).unwrap();
    let metadata = |name| fs::metadata(folder.0.path(name)).unwrap();
    let [made, usual] = ["payments", "another"].map(|name| metadata(name).permissions());
    assert_eq!(made.mode(), usual.mode());
}

/// Installed by `cargo install --git`, which notes the source beside the folder `bin`.
#[test]
fn after_an_installation_from_a_repository_a_project_depends_on_its_commit() {
    let binary = Path::new(env!("CARGO_BIN_EXE_cargo-sqs-once"));
    // A link needs the same file system.
    let root = tempfile::tempdir_in(binary.parent().unwrap()).unwrap();
    fs::create_dir(root.path().join("bin")).unwrap();
    let installed = root.path().join("bin/cargo-sqs-once");
    fs::hard_link(binary, &installed).unwrap();
    let url = "https://git.example.com/acme/sqs-once.git";
    for (name, source, kind, expected) in [
        (
            "one",
            format!("git+{url}?branch=next#0123abc"),
            "rev",
            "0123abc",
        ),
        ("two", format!("git+{url}#0123abc"), "git", url),
        (
            "three",
            "git+https://token@git.example.com/acme#0123abc".to_owned(),
            "path",
            "crates/sqs-once",
        ),
        (
            "four",
            "path+file:///home/u/sqs-once".to_owned(),
            "path",
            "crates/sqs-once",
        ),
    ] {
        let record = format!("[v1]\n\"cargo-sqs-once 0.1.0 ({source})\" = [\"cargo-sqs-once\"]\n");
        fs::write(root.path().join(".crates.toml"), record).unwrap();
        let mut new = command_of(installed.to_str().unwrap(), &["new", name]);
        let run = Run::of(new.current_dir(root.path()));
        run.assert_done();
        let manifest = fs::read_to_string(root.path().join(name).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let dependency = &manifest["dependencies"]["sqs-once"];
        let value = dependency[kind].as_str().unwrap();
        assert!(value.ends_with(expected), "{name}: {value}");
        if kind != "path" {
            run.shows(&format!("built from:\n  {url}#0123abc\n"));
        }
    }
}

#[test]
fn it_says_what_it_made_and_what_to_do_next() {
    let folder = Folder::new();
    let run = folder.run(&["payments"]);
    run.shows("src/main.rs");
    run.shows("cd payments\n  cargo test\n  cargo sqs-once invoke events/orders.json");
    assert_eq!(run.stderr, "");

    let run = folder.run(&["refunds", "--iac", "cdk"]);
    run.shows("  (cd cdk && npm ci && npx cdk ls)\n  cargo sqs-once invoke events/orders.json");
    run.shows("  (cd cdk && npm ci && npx cdk deploy)");

    let run = folder.run(&["returns", "--iac", "terraform"]);
    run.shows("  cargo lambda build --release --arm64 --output-format zip\n");
    run.shows("  terraform -chdir=terraform init && terraform -chdir=terraform apply");

    let run = folder.run(&["shipping", "--fifo", "--format=json"]);
    let [made] = run.json().try_into().unwrap();
    assert_eq!(made["name"], "shipping");
    let project = Path::new(made["folder"].as_str().unwrap());
    let files = made["files"].as_array().unwrap();
    assert!(files.len() > 10);
    for file in files {
        assert!(project.join(file.as_str().unwrap()).is_file(), "{file}");
    }
}
