//! SQL statements. Their conditions implement [`Claim::admitted_by`] and
//! [`Settlement::admitted_by`](sqs_once::store::Settlement).
//!
//! Each statement is sent in one message with its parameters. It leaves no state on the connection that a proxy would
//! have to track, such as a prepared statement.
//!
//! The fence parameter of a claim or an unclaimed completion is its time: a key's first fence is the time in milliseconds
//! ([`Fence::first`]). Statements lock rows in the order of their IDs, so two slices never deadlock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join3, try_join};
use sqs_once::key::Fingerprint;
use sqs_once::store::{CarryOver, Claim, Fence, Seen, Settlement, Timestamp, UnclaimedCompletion};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use crate::DELETE_EXPIRED;
use crate::rows::{COLUMNS, signed, whole_secs};

/// How long a claim outside a handler's transaction waits for another transaction. It is 2 s shorter than the store's
/// own time limit, so that the server answers first.
const LONGEST_CLAIM: Duration = Duration::from_secs(2);

/// How much longer a statement may run than it waits for a lock, so that the server reports a lock timeout as such.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);

/// Smaller fences are counts of claims.
const FIRST_TIME: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Statements {
    claim: String,
    insert: String,
    claim_over: String,
    /// Completes any row that is not completed.
    pub(crate) record: String,
    /// Completes a row that a claim could replace, or the owner's own claim.
    pub(crate) commit: String,
    end: String,
    end_here: String,
    renew: String,
    read: String,
    delete_expired: String,
}

/// A completion, with its expiration and data, or a release of an earlier claim.
pub(crate) type End<'a> = (&'a Settlement, Option<(Timestamp, Option<&'a Arc<str>>)>);

/// A claim that goes on, with its new lease and fence.
pub(crate) type Renewal<'a> = (&'a Settlement, Timestamp, Option<CarryOver>);

/// The completion of a key that need not have been claimed.
pub(crate) type Unclaimed<'a> = (&'a Settlement, &'a UnclaimedCompletion);

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The rows that a claim may replace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClaimOver {
    /// None: the key is new.
    New,
    /// A free row that is unchanged since it was read.
    Seen,
    /// Any free row. For claims that become visible only when their transaction commits.
    Free,
}

impl Statements {
    /// Creates the statements for the table of this name, already quoted if necessary.
    pub(crate) fn new(table: &str) -> Self {
        // An expired completion may be replaced by any claim or unclaimed completion.
        let expired = "kept.expiration < excluded.fence / 1000";
        let lapsed = format!(
            "CASE WHEN kept.in_progress_expiration IS NULL THEN {expired} \
             ELSE kept.in_progress_expiration < excluded.fence \
                 AND kept.owner IS DISTINCT FROM excluded.owner END"
        );
        let insert = |select: &str| {
            format!(
                "INSERT INTO {table} AS kept \
                     (id, status, in_progress_expiration, expiration, validation, data, owner, fence) \
                 {select} ORDER BY id COLLATE \"C\""
            )
        };
        let upsert = |select: &str, set: &str, in_progress: &str| {
            let insert = insert(select);
            format!(
                "{insert} \
                 ON CONFLICT ON CONSTRAINT processed_events_v1 DO UPDATE SET \
                     status = excluded.status, expiration = excluded.expiration, \
                     validation = excluded.validation, data = excluded.data, owner = excluded.owner, {set} \
                 WHERE CASE kept.status WHEN 'COMPLETED' THEN {expired} \
                     WHEN 'INPROGRESS' THEN {in_progress} ELSE false END \
                 RETURNING id, fence, pg_current_xact_id()::text"
            )
        };
        // The owners' rows. They are locked first, since an UPDATE alone locks them in any order.
        let mine = format!(
            "SELECT kept.id FROM {table} AS kept JOIN new ON new.id = kept.id AND new.owner = kept.owner \
             ORDER BY kept.id FOR UPDATE OF kept"
        );
        let end = |claimed_here: &str| {
            format!(
                "WITH new AS ( \
                     SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[], $4::bigint[], $5::bytea[]) \
                         AS new (id, owner, completes, expiration, data) \
                 ), mine AS ({mine}) \
                 UPDATE {table} AS kept SET \
                     status = CASE WHEN completes THEN 'COMPLETED' ELSE kept.status END, \
                     in_progress_expiration = CASE WHEN completes THEN kept.in_progress_expiration ELSE 0 END, \
                     expiration = CASE WHEN completes THEN new.expiration ELSE kept.expiration END, \
                     data = coalesce(new.data, kept.data) \
                 FROM mine JOIN new ON new.id = mine.id \
                 WHERE kept.id = mine.id AND kept.owner = new.owner \
                     AND (completes OR kept.status = 'INPROGRESS') {claimed_here} \
                 RETURNING kept.id"
            )
        };
        // Claims over a row without a fence count from 1.
        let counted = "coalesce(kept.fence, 0) + 1";
        let recorded = "fence = coalesce(kept.fence + 1, excluded.fence)";
        let recordings = "SELECT id, 'COMPLETED', NULL::bigint, expiration, validation, data, owner, fence \
             FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[]) \
                 AS new (id, owner, fence, expiration, validation, data)";
        let claims = "SELECT id, 'INPROGRESS', lease, expiration, validation, NULL::bytea, owner, fence \
             FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[]) \
                 AS new (id, owner, fence, lease, expiration, validation)";
        Self {
            insert: format!(
                "{} ON CONFLICT ON CONSTRAINT processed_events_v1 DO NOTHING RETURNING id, fence",
                insert(claims)
            ),
            // Locks the rows in order, as `end` does. The conditions are those of `claim` and the fence.
            claim_over: format!(
                "WITH excluded AS ( \
                     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], \
                         $7::bigint[], $8::bigint[]) \
                         AS new (id, owner, fence, lease, expiration, validation, seen, least) \
                 ), locked AS ( \
                     SELECT kept.id FROM {table} AS kept JOIN excluded ON excluded.id = kept.id \
                     ORDER BY kept.id COLLATE \"C\" FOR UPDATE OF kept \
                 ) \
                 UPDATE {table} AS kept SET \
                     status = 'INPROGRESS', in_progress_expiration = excluded.lease, \
                     expiration = excluded.expiration, validation = excluded.validation, data = NULL, \
                     owner = excluded.owner, fence = greatest({counted}, excluded.least) \
                 FROM locked JOIN excluded ON excluded.id = locked.id \
                 WHERE kept.id = locked.id AND kept.fence IS NOT DISTINCT FROM excluded.seen \
                     AND CASE kept.status WHEN 'COMPLETED' THEN {expired} \
                         WHEN 'INPROGRESS' THEN {lapsed} ELSE false END \
                 RETURNING kept.id, kept.fence"
            ),
            // A rollback takes the fence back, but its handler may have sent it to a service. The time makes the next one
            // larger. A count stays one, since it tells that the key's age is unknown.
            claim: upsert(
                claims,
                &format!(
                    "in_progress_expiration = excluded.in_progress_expiration, \
                     fence = CASE WHEN kept.fence >= {FIRST_TIME} THEN greatest({counted}, excluded.fence) \
                         ELSE {counted} END"
                ),
                &lapsed,
            ),
            record: upsert(recordings, recorded, "true"),
            commit: upsert(
                recordings,
                recorded,
                &format!("kept.owner = excluded.owner OR {lapsed}"),
            ),
            end: end(""),
            renew: format!(
                "WITH new AS ( \
                     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) \
                         AS new (id, owner, lease, fence, claimed) \
                 ), mine AS ({mine}) \
                 UPDATE {table} AS kept SET \
                     in_progress_expiration = new.lease, fence = coalesce(new.fence, kept.fence) \
                 FROM mine JOIN new ON new.id = mine.id \
                 WHERE kept.id = mine.id AND kept.owner = new.owner AND kept.status = 'INPROGRESS' \
                     AND kept.in_progress_expiration > 0 \
                     AND (new.lease = 0 OR kept.in_progress_expiration <= new.lease) \
                     AND (new.fence IS NULL OR kept.fence = new.claimed OR kept.fence <= new.fence) \
                 RETURNING kept.id"
            ),
            read: format!("SELECT {COLUMNS} FROM {table} WHERE id = ANY ($1)"),
            // Only the transaction with the claims may end them. Unless it ends all, the division by zero turns the
            // following COMMIT into a rollback.
            end_here: format!(
                "WITH ended AS ({}) SELECT 1 / (count(*) = cardinality($1))::integer FROM ended",
                end("AND kept.status = 'INPROGRESS' AND pg_current_xact_id()::text = $6")
            ),
            delete_expired: DELETE_EXPIRED
                .replace("processed_events", table)
                .replace("LIMIT 1000", "LIMIT $1"),
        }
    }

    /// Writes the claims that their rows admit, and returns their IDs and fences. IDs must be unique.
    pub(crate) async fn claim(
        &self,
        client: &Client,
        over: ClaimOver,
        claims: &[&Claim],
    ) -> Result<Vec<Row>, Error> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let (statement, columns) = match over {
            ClaimOver::Free => (&self.claim, 6),
            ClaimOver::New => (&self.insert, 6),
            ClaimOver::Seen => (&self.claim_over, 8),
        };
        let ids = column(claims, |claim| claim.id.as_str());
        let owners = column(claims, |claim| claim.owner.to_string());
        let fences = column(claims, |claim| first_fence(claim.now));
        let leases = column(claims, |claim| signed(claim.lease_until.as_millis()));
        let expirations = column(claims, |claim| whole_secs(claim.expiration));
        let validations = column(claims, |claim| fingerprint(&claim.fingerprint));
        let over = match over {
            ClaimOver::Seen => claims,
            ClaimOver::Free | ClaimOver::New => &[],
        };
        let seen = column(over, |claim| match claim.seen {
            Seen::Item(fence) | Seen::Expired(fence) => fence.map(|fence| signed(fence.get())),
            Seen::Nothing => None,
        });
        // The fence of a claim over an expired completion tells its time.
        let least = column(over, |claim| {
            matches!(claim.seen, Seen::Expired(_)).then(|| first_fence(claim.now))
        });
        let parameters: [Parameter<'_>; 8] = [
            (&ids, Type::TEXT_ARRAY),
            (&owners, Type::TEXT_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&leases, Type::INT8_ARRAY),
            (&expirations, Type::INT8_ARRAY),
            (&validations, Type::TEXT_ARRAY),
            (&seen, Type::INT8_ARRAY),
            (&least, Type::INT8_ARRAY),
        ];
        client.query_typed(statement, &parameters[..columns]).await
    }

    /// Claims `new` keys, and keys whose rows the caller has read (`over`), in a transaction of its own and one round
    /// trip.
    ///
    /// Without a limit, the server would write a waiting claim whenever the other transaction ends, even if the caller
    /// has disappeared. The server cannot detect that, so it ends the claim after [`LONGEST_CLAIM`] and [`MARGIN`].
    pub(crate) async fn claim_alone(
        &self,
        client: &Client,
        new: &[&Claim],
        over: &[&Claim],
    ) -> Result<Vec<Row>, Error> {
        // The server limits each statement, so two of them share the time.
        let statements = match new.is_empty() || over.is_empty() {
            true => 1,
            false => 2,
        };
        let begin = begin_text(LONGEST_CLAIM / statements, MARGIN / statements);
        // All are sent before the first answer. After a failed claim, the COMMIT is a rollback.
        let (begun, written, committed) = join3(
            client.batch_execute(&begin),
            try_join(
                self.claim(client, ClaimOver::New, new),
                self.claim(client, ClaimOver::Seen, over),
            ),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        let (mut written, over) = written?;
        committed?;
        written.extend(over);
        Ok(written)
    }

    /// Writes each unclaimed completion that its row admits, and returns the IDs written. IDs must be unique. The statement is
    /// [`record`](Self::record) or [`commit`](Self::commit).
    pub(crate) async fn write(
        client: &Client,
        statement: &str,
        records: &[Unclaimed<'_>],
    ) -> Result<Vec<Row>, Error> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let ids = column(records, |(one, _)| one.id.as_str());
        let owners = column(records, |(one, _)| one.owner.to_string());
        let fences = column(records, |(_, recording)| first_fence(recording.now));
        let expirations = column(records, |(_, recording)| whole_secs(recording.expiration));
        let validations = column(records, |(_, one)| fingerprint(&one.fingerprint));
        let data = column(records, |(_, recording)| bytes(recording.data.as_ref()));
        let parameters: [Parameter<'_>; 6] = [
            (&ids, Type::TEXT_ARRAY),
            (&owners, Type::TEXT_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&expirations, Type::INT8_ARRAY),
            (&validations, Type::TEXT_ARRAY),
            (&data, Type::BYTEA_ARRAY),
        ];
        client.query_typed(statement, &parameters).await
    }

    /// Writes the completions and releases that their rows admit, and returns their IDs. IDs must be unique.
    pub(crate) async fn end(&self, client: &Client, ends: &[End<'_>]) -> Result<Vec<Row>, Error> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        Self::send_ends(client, &self.end, ends, None).await
    }

    /// Writes the renewals that their rows admit, and returns their IDs. IDs must be unique.
    pub(crate) async fn renew(
        &self,
        client: &Client,
        renewals: &[Renewal<'_>],
    ) -> Result<Vec<Row>, Error> {
        if renewals.is_empty() {
            return Ok(Vec::new());
        }
        let ids = column(renewals, |(one, ..)| one.id.as_str());
        let owners = column(renewals, |(one, ..)| one.owner.to_string());
        let leases = column(renewals, |(_, until, _)| signed(until.as_millis()));
        let fences = column(renewals, |(.., it)| it.map(|it| signed(it.follows.get())));
        let claimed = column(renewals, |(.., it)| it.map(|it| signed(it.claimed.get())));
        let parameters: [Parameter<'_>; 5] = [
            (&ids, Type::TEXT_ARRAY),
            (&owners, Type::TEXT_ARRAY),
            (&leases, Type::INT8_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&claimed, Type::INT8_ARRAY),
        ];
        client.query_typed(&self.renew, &parameters).await
    }

    /// Ends all claims of the transaction with this ID. Fails if a claim is not in it, or the session is in no such
    /// transaction.
    pub(crate) async fn end_here(
        &self,
        client: &Client,
        ends: &[End<'_>],
        transaction: &str,
    ) -> Result<(), Error> {
        Self::send_ends(client, &self.end_here, ends, Some(transaction)).await?;
        Ok(())
    }

    async fn send_ends(
        client: &Client,
        statement: &str,
        ends: &[End<'_>],
        transaction: Option<&str>,
    ) -> Result<Vec<Row>, Error> {
        let ids = column(ends, |(one, _)| one.id.as_str());
        let owners = column(ends, |(one, _)| one.owner.to_string());
        let completes = column(ends, |(_, completion)| completion.is_some());
        let expirations = column(ends, |(_, end)| end.map(|(at, _)| whole_secs(at)));
        let data = column(ends, |(_, completion)| bytes(completion.as_ref()?.1));
        let parameters: [Parameter<'_>; 6] = [
            (&ids, Type::TEXT_ARRAY),
            (&owners, Type::TEXT_ARRAY),
            (&completes, Type::BOOL_ARRAY),
            (&expirations, Type::INT8_ARRAY),
            (&data, Type::BYTEA_ARRAY),
            (&transaction, Type::TEXT),
        ];
        let count = 5 + usize::from(transaction.is_some());
        client.query_typed(statement, &parameters[..count]).await
    }

    /// Returns a text that is equal for two stores only if they use the same table name.
    pub(crate) fn of_table(&self) -> &str {
        &self.read
    }

    /// Reads the existing rows.
    pub(crate) async fn read(&self, client: &Client, ids: &[&str]) -> Result<Vec<Row>, Error> {
        let parameters: [Parameter<'_>; 1] = [(&ids, Type::TEXT_ARRAY)];
        client.query_typed(&self.read, &parameters).await
    }

    /// Deletes up to `limit` expired rows and returns their number.
    pub(crate) async fn delete_expired(&self, client: &Client, limit: i64) -> Result<u64, Error> {
        let parameters: [Parameter<'_>; 1] = [(&limit, Type::INT8)];
        client
            .execute_typed(&self.delete_expired, &parameters)
            .await
    }
}

/// Begins a transaction with time limits on the server. If the process is frozen or dead, the server ends the session and
/// frees its locks. The server also ends a statement that hangs, after `limit` and `margin`.
pub(crate) fn begin_text(limit: Duration, margin: Duration) -> String {
    let limit = millis(limit);
    format!(
        "BEGIN; SET LOCAL lock_timeout = {limit}; SET LOCAL statement_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {limit}",
        limit + margin.as_millis()
    )
}

/// Converts a time limit to milliseconds. Zero would mean no limit.
pub(crate) fn millis(limit: Duration) -> u128 {
    limit.as_millis().clamp(1, i32::MAX as u128 - 1000)
}

fn fingerprint(fingerprint: &Option<Fingerprint>) -> Option<&str> {
    fingerprint.as_ref().map(Fingerprint::as_str)
}

fn bytes(data: Option<&Arc<str>>) -> Option<&[u8]> {
    data.map(|data| data.as_bytes())
}

fn first_fence(now: Timestamp) -> i64 {
    signed(Fence::first(now).get())
}

fn column<'a, E, T>(entries: &'a [E], value: impl Fn(&'a E) -> T) -> Vec<T> {
    entries.iter().map(value).collect()
}
