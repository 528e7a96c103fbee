# The eight things that a contributor does. `make` alone lists them.

.PHONY: help build test short race lint golden fuzz release-check

help:
	@sed -n 's/^## //p' Makefile

## make build   the programs, into bin/
build:
	CGO_ENABLED=0 go build -o bin/ ./cmd/...

## make test    the whole suite; a test whose program is missing says so and is skipped
test:
	go test ./...

## make short   the tests that start neither git nor built programs
short:
	go test -short ./...

## make race    the packages with goroutines, with the race detector
race:
	go test -race -short ./pkg/rules ./pkg/bundle
	go test -race ./pkg/gitrepo ./internal/outbox ./internal/attest ./internal/bridge ./internal/console
	go test -race ./cmd/rig-mcp -run 'TestConversation|TestLines|TestAgents$$'

## make lint    gofmt, go vet for three systems, staticcheck, deadcode
lint:
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then printf 'gofmt would change:\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go -C internal/tools run ./foreignvet -C ../.. windows/amd64 darwin/arm64
	go mod tidy -diff
	go tool -modfile=internal/tools/go.mod staticcheck ./...
	@dead=$$(go tool -modfile=internal/tools/go.mod deadcode -test ./...) && \
	if [ -n "$$dead" ]; then printf '%s\n' "$$dead"; exit 1; fi

## make golden  writes golden files and the outputs in documents anew; read the difference
golden:
	go test $$(git grep -l 'flag.Bool("update"' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|') -update

## make release-check  a release, made twice and compared, installed and removed; publishes nothing
release-check:
	packaging/check.sh

## make fuzz    one target: make fuzz PKG=./pkg/envelope FUNC=FuzzParse TIME=1m
PKG = ./pkg/envelope
FUNC = FuzzParse
TIME = 1m
fuzz:
	go test $(PKG) -run '^$$' -fuzz '^$(FUNC)$$' -fuzztime $(TIME) -fuzzminimizetime 1x
