# A thin front to scripts/.
.PHONY: build demo test format bench check

build:
	scripts/setup build
	scripts/build release

demo test bench:
	scripts/$@

format:
	scripts/format --fix

check:
	.ci/run
