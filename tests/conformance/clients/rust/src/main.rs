//! rskafka against one broker or several: a client written in Rust from the protocol up, without librdkafka.
//!
//! checks HOST:PORT,... (every broker) prints a line of JSON for each check: {"check", "ok", "detail"}.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicI16, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, TimeZone, Utc};
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};

const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MS: i32 = 10_000;
const BASE_TIMESTAMP_MS: i64 = 1_700_000_000_000;

/// Of topics: as many as there are brokers.
static REPLICAS: AtomicI16 = AtomicI16::new(1);

type Outcome = Result<(), String>;

#[tokio::main]
async fn main() {
    let bootstrap = std::env::args().nth(1).expect("checks HOST:PORT,...");
    let addresses: Vec<String> = bootstrap.split(',').map(String::from).collect();
    REPLICAS.store(addresses.len() as i16, Ordering::Relaxed);
    let client = match ClientBuilder::new(addresses).build().await {
        Ok(client) => client,
        Err(failure) => {
            eprintln!("{failure}");
            std::process::exit(1);
        }
    };
    for (name, codec) in [
        ("none", Compression::NoCompression),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ] {
        report(&format!("round trip {name}"), round_trip(&client, codec)).await;
    }
    report("middle of a batch", middle_of_a_batch(&client)).await;
    report("offsets by timestamp", offsets_by_timestamp(&client)).await;
    report("waits for records", waits_for_records(&client)).await;
    report("topics administered", topics_administered(&client)).await;
    report("records deleted", records_deleted(&client)).await;
    report("offset out of range", offset_out_of_range(&client)).await;
}

async fn report(name: &str, check: impl Future<Output = Outcome>) {
    let outcome = match tokio::time::timeout(TIMEOUT, check).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("not done within {TIMEOUT:?}")),
    };
    let detail = outcome.err().unwrap_or_default();
    let quoted: String = detail
        .chars()
        .flat_map(char::escape_default)
        .collect::<String>()
        .replace("\\'", "'");
    println!(
        "{{\"check\": \"{name}\", \"ok\": {}, \"detail\": \"{quoted}\"}}",
        detail.is_empty()
    );
}

fn fresh(prefix: &str) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    format!("{prefix}-{:x}", now.as_nanos())
}

fn at(milliseconds: i64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(milliseconds)
        .single()
        .expect("a time")
}

/// The samples of client_samples.py; a header comes once here, and has a value.
fn samples(count: i64) -> Vec<Record> {
    (0..count)
        .map(|number| {
            let mut record = Record {
                key: Some(format!("key-{number}").into_bytes()),
                value: Some(format!("value-{number}-{}", "abcdefghij".repeat(60)).into_bytes()),
                headers: BTreeMap::new(),
                timestamp: at(BASE_TIMESTAMP_MS + number * 1000),
            };
            match number % 8 {
                0 => record.key = None,
                1 => record.value = None,
                2 => (record.key, record.value) = (Some(vec![]), Some(vec![])),
                3 => {
                    record.headers.insert("blank".to_owned(), vec![]);
                    record.headers.insert("trace".to_owned(), "zwei-ü".into());
                }
                4 => record.value = Some((0..1024).map(|byte| byte as u8).collect()),
                _ => {}
            }
            record
        })
        .collect()
}

async fn new_topic(client: &Client) -> Result<PartitionClient, String> {
    let name = fresh("topic");
    said(
        said(client.controller_client())?
            .create_topic(&name, 1, REPLICAS.load(Ordering::Relaxed), TIMEOUT_MS)
            .await,
    )?;
    said(
        client
            .partition_client(&name, 0, UnknownTopicHandling::Retry)
            .await,
    )
}

async fn read(
    partition: &PartitionClient,
    from: i64,
    count: usize,
) -> Result<Vec<RecordAndOffset>, String> {
    let mut found: Vec<RecordAndOffset> = vec![];
    while found.len() < count {
        let offset = found.last().map_or(from, |last| last.offset + 1);
        let (records, _) = said(partition.fetch_records(offset, 1..1_000_000, 1_000).await)?;
        if records.is_empty() {
            return Err(format!("{} of {count} records", found.len()));
        }
        found.extend(records);
    }
    Ok(found)
}

fn said<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|failure| failure.to_string())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Outcome {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, found {found:?}"))
    }
}

fn refused<T>(expected: ProtocolError, result: Result<T, Error>) -> Outcome {
    match result {
        Err(Error::ServerError { protocol_error, .. }) => {
            equal("the error", expected, protocol_error)
        }
        Err(other) => Err(format!("expected {expected:?}, found {other}")),
        Ok(_) => Err(format!("expected {expected:?}, and it went well")),
    }
}

fn offsets(records: &[RecordAndOffset]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}

async fn round_trip(client: &Client, codec: Compression) -> Outcome {
    let partition = new_topic(client).await?;
    let sent = samples(40);
    equal(
        "acknowledged",
        (0..40).collect::<Vec<i64>>(),
        said(partition.produce(sent.clone(), codec).await)?,
    )?;
    let found = read(&partition, 0, 40).await?;
    for (number, record) in found.iter().enumerate() {
        equal("the record", &sent[number], &record.record)?;
    }
    equal("offsets", (0..40).collect(), offsets(&found))
}

async fn middle_of_a_batch(client: &Client) -> Outcome {
    let partition = new_topic(client).await?;
    said(partition.produce(samples(40), Compression::Gzip).await)?;
    equal(
        "offsets",
        (17..40).collect(),
        offsets(&read(&partition, 17, 23).await?),
    )
}

async fn offsets_by_timestamp(client: &Client) -> Outcome {
    let partition = new_topic(client).await?;
    said(
        partition
            .produce(samples(20), Compression::NoCompression)
            .await,
    )?;
    equal(
        "earliest",
        0,
        said(partition.get_offset(OffsetAt::Earliest).await)?,
    )?;
    equal(
        "latest",
        20,
        said(partition.get_offset(OffsetAt::Latest).await)?,
    )?;
    let twelfth = OffsetAt::Timestamp(at(BASE_TIMESTAMP_MS + 12_000));
    equal("at 12 s", 12, said(partition.get_offset(twelfth).await)?)
}

/// A fetch at the end of the log is held until there is something.
/// Over two connections: Apache Kafka handles the requests of one in turn, so that records would wait for their reader.
async fn waits_for_records(client: &Client) -> Outcome {
    let partition = new_topic(client).await?;
    let writer = said(
        client
            .partition_client(partition.topic(), 0, UnknownTopicHandling::Retry)
            .await,
    )?;
    let (waiting, writing) =
        tokio::join!(partition.fetch_records(0, 1..1_000_000, 20_000), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            writer
                .produce(samples(3), Compression::NoCompression)
                .await
        });
    said(writing)?;
    equal("offsets", vec![0, 1, 2], offsets(&said(waiting)?.0))
}

async fn topics_administered(client: &Client) -> Outcome {
    let controller = said(client.controller_client())?;
    let name = fresh("topic");
    said(controller.create_topic(&name, 3, 1, TIMEOUT_MS).await)?;
    let listed = said(client.list_topics().await)?;
    let found = listed
        .iter()
        .find(|topic| topic.name == name)
        .ok_or("it is not listed")?;
    equal("partitions", 3, found.partitions.len())?;
    refused(
        ProtocolError::TopicAlreadyExists,
        controller.create_topic(&name, 1, 1, TIMEOUT_MS).await,
    )?;
    refused(
        ProtocolError::InvalidTopicException,
        controller.create_topic("no spaces", 1, 1, TIMEOUT_MS).await,
    )?;
    refused(
        ProtocolError::InvalidReplicationFactor,
        controller
            .create_topic(fresh("topic"), 1, 9, TIMEOUT_MS)
            .await,
    )?;
    said(controller.delete_topic(&name, TIMEOUT_MS).await)?;
    while said(client.list_topics().await)?
        .iter()
        .any(|topic| topic.name == name)
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn records_deleted(client: &Client) -> Outcome {
    let partition = new_topic(client).await?;
    said(
        partition
            .produce(samples(20), Compression::NoCompression)
            .await,
    )?;
    said(partition.delete_records(7, TIMEOUT_MS).await)?;
    equal(
        "start",
        7,
        said(partition.get_offset(OffsetAt::Earliest).await)?,
    )?;
    let found = offsets(&read(&partition, 7, 13).await?);
    equal("offsets", (7..20).collect(), found)
}

async fn offset_out_of_range(client: &Client) -> Outcome {
    let partition = new_topic(client).await?;
    said(
        partition
            .produce(samples(3), Compression::NoCompression)
            .await,
    )?;
    refused(
        ProtocolError::OffsetOutOfRange,
        partition.fetch_records(1000, 1..1_000_000, 100).await,
    )
}
