package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	every                  = 20 * time.Millisecond
	lastAcknowledgedWithin = 150 * time.Second
)

// Writes numbers, one after the other over all partitions, until its standard input ends, and says
// each in a line as it is handed to the client. It ends when all are acknowledged; the first that
// is refused ends it with an error.
func write(bootstrap, topic, partitions string) {
	client, err := kgo.NewClient(seeds(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	over := inputEnds()
	for number := 0; over.Err() == nil; number++ {
		client.Produce(context.Background(), &kgo.Record{
			Topic:     topic,
			Partition: int32(number % count(partitions)),
			Value:     []byte(strconv.Itoa(number)),
		}, func(record *kgo.Record, err error) {
			if err != nil {
				log.Fatalf("%s: %v", record.Value, err)
			}
		})
		fmt.Println(number)
		time.Sleep(every)
	}
	within, cancel := context.WithTimeout(context.Background(), lastAcknowledgedWithin)
	defer cancel()
	if err := client.Flush(within); err != nil {
		log.Fatal(err)
	}
}

// Reads all partitions from their beginning, and says of each record its partition and value in a
// line, until its standard input ends. What the client reports of a fault ends it with an error.
func read(bootstrap, topic, partitions string) {
	beginnings := map[int32]kgo.Offset{}
	for partition := 0; partition < count(partitions); partition++ {
		beginnings[int32(partition)] = kgo.NewOffset().At(0)
	}
	from := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: beginnings})
	client, err := kgo.NewClient(seeds(bootstrap), from, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	over := inputEnds()
	out := bufio.NewWriter(os.Stdout)
	for {
		fetches := client.PollFetches(over)
		if over.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Fatalf("%s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Fprintf(out, "%d %s\n", record.Partition, record.Value)
		})
		if err := out.Flush(); err != nil {
			log.Fatal(err)
		}
	}
}

func seeds(bootstrap string) kgo.Opt {
	return kgo.SeedBrokers(strings.Split(bootstrap, ",")...)
}

func count(partitions string) int {
	number, err := strconv.Atoi(partitions)
	if err != nil {
		log.Fatal(err)
	}
	return number
}

// Done when nobody can write to this program any more: it is told to stop, or its test is gone.
func inputEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}
