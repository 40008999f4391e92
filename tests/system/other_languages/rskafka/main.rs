//! What tests have rskafka do: `client read BOOTSTRAP TOPIC`. It reads partition 0 from its
//! beginning, and says of each record "read VALUE", until its standard input ends.
//!
//! A consumer of rskafka's asks for records from an offset on, and knows no other offset to go on
//! from than those of the records that it is given.

use rskafka::client::partition::UnknownTopicHandling;
use rskafka::client::ClientBuilder;
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, task, bootstrap, topic] = &words[..] else {
        panic!("client read BOOTSTRAP TOPIC");
    };
    assert_eq!(task, "read");
    let over = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    tokio::select! {
        () = over => {}
        () = read(bootstrap, topic) => {}
    }
}

async fn read(bootstrap: &str, topic: &str) {
    let brokers = bootstrap.split(',').map(String::from).collect();
    let client = ClientBuilder::new(brokers).build().await.unwrap();
    let partition = client
        .partition_client(topic, 0, UnknownTopicHandling::Error)
        .await
        .unwrap();
    let mut offset = 0;
    loop {
        let (records, _) = partition.fetch_records(offset, 1..1_000_000, 500).await.unwrap();
        for each in records {
            println!("read {}", String::from_utf8_lossy(&each.record.value.unwrap()));
            offset = each.offset + 1;
        }
    }
}
