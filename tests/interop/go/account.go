package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// guest is somebody with an account; a minus sign is no account.
type guest struct {
	namesrv     primitive.NsResolver
	broker      string
	credentials primitive.Credentials
}

// account does one thing with an account and says how that went: the words are those of
// support/interop/account_programs.py.
func account(words []string) {
	g := guest{namesrv: primitive.NewPassthroughResolver([]string{words[0]}), broker: words[1]}
	if words[2] != "-" {
		g.credentials = primitive.Credentials{AccessKey: words[2], SecretKey: words[3]}
	}
	verb, names := words[4], words[5:]
	var err error
	switch verb {
	case "SEND":
		err = g.send(names[0], 1)
	case "BATCH":
		err = g.send(names[0], 2)
	case "PULL":
		err = g.pull(names[0], names[1])
	case "TOPIC":
		err = g.topic(names[0])
	case "PUSH", "ORDERLY", "BACK":
		err = g.push(verb, names[0], names[1], names[2])
	default:
		err = fmt.Errorf("no such verb: %s", verb)
	}
	if err != nil {
		fmt.Println("FAILED", strings.ReplaceAll(err.Error(), "\n", " "))
	} else {
		fmt.Println("OK")
	}
}

func (g guest) send(topic string, count int) error {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(g.namesrv),
		producer.WithCredentials(g.credentials),
		producer.WithGroupName("producers"),
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(15*time.Second),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	messages := []*primitive.Message{}
	for n := 0; n < count; n++ {
		messages = append(messages, primitive.NewMessage(topic, []byte("hello")))
	}
	_, err = p.SendSync(context.Background(), messages...)
	return err
}

func (g guest) pull(group, topic string) error {
	c, err := rocketmq.NewPullConsumer(
		consumer.WithNsResolver(g.namesrv),
		consumer.WithCredentials(g.credentials),
		consumer.WithGroupName(group),
	)
	if err != nil {
		return err
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	queue := &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: 0}
	_, err = c.PullFrom(context.Background(), queue, 0, 1)
	return err
}

func (g guest) topic(name string) error {
	a, err := admin.NewAdmin(admin.WithResolver(g.namesrv), admin.WithCredentials(g.credentials))
	if err != nil {
		return err
	}
	// This client signs what an admin asks only after this call.
	_, _ = a.GetAllSubscriptionGroup(context.Background(), g.broker, 15*time.Second)
	return a.CreateTopic(
		context.Background(),
		admin.WithTopicCreate(name),
		admin.WithBrokerAddrCreate(g.broker),
	)
}

// keepQueues gives all queues to a consumer that sees no members.  This client takes a refused list
// of members for an empty one: it would drop its queues, and then it sends no message back.
func keepQueues(
	group, member string, queues []*primitive.MessageQueue, members []string,
) []*primitive.MessageQueue {
	if len(members) == 0 {
		return queues
	}
	return consumer.AllocateByAveragely(group, member, queues, members)
}

// push consumes until it is killed.  It says which wanted messages came; BACK fails each of them
// once, when a line of input says so.  Messages come before Start returns: they are told of after it.
func (g guest) push(verb, group, topic, wanted string) error {
	input := bufio.NewReader(os.Stdin)
	started := make(chan struct{})
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(g.namesrv),
		consumer.WithCredentials(g.credentials),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(verb == "ORDERLY"),
		consumer.WithRebalanceLockInterval(time.Second),
		consumer.WithStrategy(keepQueues),
	)
	if err != nil {
		return err
	}
	hear := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			if string(one.Body) != wanted {
				continue
			}
			<-started
			fmt.Println("HEARD", one.ReconsumeTimes)
			if verb == "BACK" && one.ReconsumeTimes == 0 {
				_, _ = input.ReadString('\n')
				return consumer.ConsumeRetryLater, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}, hear); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	fmt.Println("STARTED")
	close(started)
	select {}
}
