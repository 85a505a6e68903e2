package shop

// A Kafka cluster of three brokers for a test, each in a process of its own, without Docker and without a JVM.
// Copy this file. The program "kavka" must be on the PATH, or named in the variable KAVKA: pip install a checkout of it.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

type Cluster struct {
	Brokers []string // host:port of each
	pids    map[int32]int
	t       testing.TB
}

// StartKavka gives a cluster that ends with the test. What its brokers log is shown if the test fails.
func StartKavka(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	program := os.Getenv("KAVKA")
	if program == "" {
		program = "kavka"
	}
	directory := t.TempDir()
	words := []string{"up", "--brokers", "3", "--processes", "--port", "0", "--no-console", "--json",
		"--stop-with-stdin", "--data", filepath.Join(directory, "data")}
	for _, each := range settings {
		words = append(words, "--set", each)
	}
	command := exec.Command(program, words...)
	log, err := os.Create(filepath.Join(directory, "kavka.log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = log
	// The cluster ends when this pipe is closed: also when the test is killed.
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("%s does not start (pip install a checkout of it, or set KAVKA to its path): %v", program, err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = command.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("the brokers' log:\n%s", said)
		}
		log.Close()
	})
	var ready struct {
		Event     string
		Bootstrap string
		Brokers   []struct {
			ID  int32 `json:"broker_id"`
			PID int   `json:"pid"`
		}
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || ready.Event != "ready" {
		said, _ := os.ReadFile(log.Name())
		t.Fatalf("kavka did not start: %v\n%s", err, said)
	}
	cluster := &Cluster{Brokers: strings.Split(ready.Bootstrap, ","), pids: map[int32]int{}, t: t}
	for _, broker := range ready.Brokers {
		cluster.pids[broker.ID] = broker.PID
	}
	return cluster
}

// Kill ends a broker with kill -9. The others go on.
func (c *Cluster) Kill(broker int32) { c.signal(broker, syscall.SIGKILL) }

// Pause stops a broker's process until Resume: it takes connections, and answers nothing.
func (c *Cluster) Pause(broker int32) { c.signal(broker, syscall.SIGSTOP) }

// Resume lets a paused broker go on.
func (c *Cluster) Resume(broker int32) { c.signal(broker, syscall.SIGCONT) }

func (c *Cluster) signal(broker int32, signal syscall.Signal) {
	c.t.Helper()
	pid, known := c.pids[broker]
	if !known {
		c.t.Fatal(fmt.Sprintf("there is no broker %d", broker))
	}
	if err := syscall.Kill(pid, signal); err != nil {
		c.t.Fatal(err)
	}
}
