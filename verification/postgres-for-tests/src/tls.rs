//! A certificate for the server, and its authority.

use crate::error::file;
use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The files of one server, in its cluster's directory.
pub(crate) struct Tls {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The rules for connections (`pg_hba.conf`).
    pub(crate) hba: PathBuf,
}

impl Tls {
    /// Creates a new authority and a certificate for 127.0.0.1, and writes the files.
    pub(crate) fn make(cluster: &Path) -> Result<Self> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "postgres-for-tests");
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?
            .signed_by(&key, &Issuer::new(authority, authority_key))?;

        let files = Self {
            authority: cluster.join("authority.crt"),
            certificate: cluster.join("server.crt"),
            key: cluster.join("server.key"),
            hba: cluster.join("pg_hba.conf"),
        };
        write_private(&files.authority, &authority_certificate.pem())?;
        write_private(&files.certificate, &certificate.pem())?;
        write_private(&files.key, &key.serialize_pem())?;
        // `create_database` needs no TLS. All other connections need it, so a connection proves that TLS works.
        let hba = "host template1 postgres 127.0.0.1/32 scram-sha-256\n\
                   hostssl all all 127.0.0.1/32 scram-sha-256\n";
        write_private(&files.hba, hba)?;
        Ok(files)
    }
}

/// Writes a file that only its owner can read: PostgreSQL rejects other private keys.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<()> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .with_context(file(path))
}
