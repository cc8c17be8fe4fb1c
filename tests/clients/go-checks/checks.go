// Package checks is what the Go programs here share: named cases, and the closing line that `cargo xtask clients` counts.
package checks

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"time"
)

var (
	// Address of the server.
	Address = "127.0.0.1:" + os.Getenv("ALMANDINE_PORT")
	// Socket of the server, at this path.
	Socket = os.Getenv("ALMANDINE_SOCKET")
	// SecureAddress is where the server speaks TLS.
	SecureAddress = "127.0.0.1:" + os.Getenv("ALMANDINE_TLS_PORT")
	// Reference is set when the server is redis-server 7.0, which lacks what came later.
	Reference = os.Getenv("ALMANDINE_REFERENCE") == "1"
)

// TLS is how a client is trusted, and trusts, at SecureAddress.
func TLS() *tls.Config {
	directory := os.Getenv("ALMANDINE_CERTIFICATES")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(Value(os.ReadFile(filepath.Join(directory, "ca.crt")))) {
		panic("ca.crt has no certificate")
	}
	own := Value(tls.LoadX509KeyPair(filepath.Join(directory, "alice.crt"), filepath.Join(directory, "alice.key")))
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}
}

// Case is one of a program's. It panics when it fails.
type Case struct {
	Name string
	Work func()
}

// Run tries cases in their order, and ends the process.
func Run(cases []Case) {
	failed := 0
	for _, one := range cases {
		if !passes(one) {
			failed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(cases)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
	os.Exit(0)
}

func passes(one Case) (passed bool) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("FAILED: %s\n%v\n%s\n", one.Name, why, debug.Stack())
			return
		}
		fmt.Println("ok:", one.Name)
		passed = true
	}()
	one.Work()
	return
}

// Equal requires two values to be the same.
func Equal(actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		panic(fmt.Sprintf("expected %#v, got %#v", expected, actual))
	}
}

// Is requires an error to be, or to wrap, another one.
func Is(err, expected error) {
	if !errors.Is(err, expected) {
		panic(fmt.Sprintf("expected %v, got %v", expected, err))
	}
}

// Done requires that there is no error.
func Done(err error) {
	if err != nil {
		panic(err)
	}
}

// Value is what a call returns that does not fail.
func Value[T any](value T, err error) T {
	Done(err)
	return value
}

// Eventually waits until a condition holds.
func Eventually(condition func() bool) {
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			panic("did not come true within 30 s")
		}
	}
}
