// What tests have sarama do: `client member BOOTSTRAP GROUP TOPIC SESSION_MS BALANCER INSTANCE`.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

var balancers = map[string]sarama.BalanceStrategy{
	"range":  sarama.NewBalanceStrategyRange(),
	"sticky": sarama.NewBalanceStrategySticky(),
}

// Is a member of a group until SIGTERM, and says of each record "read VALUE". It commits when nothing
// more is there to be read, and is not told by sarama what was acknowledged. A static member does not
// leave.
func main() {
	if len(os.Args) != 8 || os.Args[1] != "member" {
		log.Fatalf("nothing is called %v", os.Args[1:])
	}
	bootstrap, group, topic, instance := os.Args[2], os.Args[3], os.Args[4], os.Args[7]
	session, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	settings := sarama.NewConfig()
	settings.Version = sarama.V2_8_0_0
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.Group.Session.Timeout = time.Duration(session) * time.Millisecond
	settings.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	settings.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{balancers[os.Args[6]]}
	settings.Consumer.Group.InstanceId = instance
	member, err := sarama.NewConsumerGroup(strings.Split(bootstrap, ","), group, settings)
	if err != nil {
		log.Fatal(err)
	}
	over, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for over.Err() == nil {
		if err := member.Consume(over, []string{topic}, reader{}); err != nil {
			log.Print(err) // it lost its place: it joins again
		}
	}
	if err := member.Close(); err != nil {
		log.Fatal(err)
	}
}

type reader struct{}

// Partitions have a goroutine each. Of two commits at a time, sarama may send the older one last.
var committing sync.Mutex

func commit(session sarama.ConsumerGroupSession) {
	committing.Lock()
	defer committing.Unlock()
	session.Commit()
}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, more := <-claim.Messages():
			if !more {
				return nil
			}
			fmt.Printf("read %s\n", record.Value)
			session.MarkMessage(record, "")
			if len(claim.Messages()) == 0 {
				commit(session)
			}
		case <-session.Context().Done():
			commit(session)
			return nil
		}
	}
}
