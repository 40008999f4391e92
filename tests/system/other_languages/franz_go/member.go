package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var balancers = map[string]kgo.GroupBalancer{
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	"range":              kgo.RangeBalancer(),
}

// Is a member of a group until SIGTERM: says of each record "read VALUE", and "committed PARTITION
// OFFSET" as soon as that is acknowledged. A static member, one with an instance id, does not leave.
func member(bootstrap, group, topic, session, balancer, instance string) {
	over, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	options := []kgo.Opt{
		seeds(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(time.Duration(count(session)) * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.Balancers(balancers[balancer]),
	}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for over.Err() == nil {
		var said strings.Builder
		client.PollFetches(over).EachRecord(func(record *kgo.Record) {
			fmt.Fprintf(&said, "read %s\n", record.Value)
		})
		fmt.Print(said.String())
		commit(client)
		client.AllowRebalance()
	}
}

// What is refused is read again, by whoever has the partition then.
func commit(client *kgo.Client) {
	offsets := client.UncommittedOffsets()
	if len(offsets) == 0 {
		return
	}
	client.CommitOffsetsSync(context.Background(), offsets, func(
		_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		if err != nil {
			return
		}
		for _, topic := range response.Topics {
			for _, each := range topic.Partitions {
				if each.ErrorCode == 0 {
					offset := offsets[topic.Topic][each.Partition].Offset
					fmt.Printf("committed %d %d\n", each.Partition, offset)
				}
			}
		}
	})
}
