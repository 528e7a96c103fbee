// Package attack holds a hostile pusher: a generator of pushes that are meant
// to get past a server, and a second, slow and simple model of the rules that
// says of each push whether it may pass, and which rules it breaks.
//
// The model is a book that is kept of one server. It remembers by itself what
// was accepted, what was judged for which ref, and who is trusted. It shares no
// code with the packages that it is compared with, and looks at every tree of
// the whole history for every commit.
//
// TestHostilePusher makes single pushes, TestSequences sequences of 3 to 12
// pushes on one server: policies, signers and revocations change in between,
// files have sizes about the limits in force, refs become protected and free.
// TestGates lets all other gates and readers judge such sequences, too, and
// compares what they say with what the server does.
// All of it is test code. RIGWARD_ATTACK=N makes N pushes instead of a few
// hundred and RIGWARD_ATTACK_SEED starts elsewhere; RIGWARD_SEQUENCES=N and
// RIGWARD_SEQUENCES_SEED, RIGWARD_GATES=N and RIGWARD_GATES_SEED do so for
// sequences, RIGWARD_SEQUENCES_BAD is after how
// many disagreements to give up. How many passed and how many were refused is
// told for everything that is done to make pushes, and for every rule; in a
// long run, what must have been seen to pass and to be refused and was not
// fails it.
package attack
