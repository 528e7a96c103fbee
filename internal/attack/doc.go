// Package attack holds a hostile pusher: a generator of pushes that are meant
// to get past a server, and a second, slow and simple model of the rules that
// says of each push whether it may pass.
//
// The model shares no code with the packages that it is compared with. It
// reads objects and refs from git alone, looks at every tree of the whole
// history for every commit, and keeps nothing from one push to the next but what
// objects hold. All
// of it is test code; RIGWARD_ATTACK=N makes N pushes instead of a few hundred
// and RIGWARD_ATTACK_SEED starts elsewhere. How many passed and how many were
// refused is told for everything that is done to make pushes, and for every
// rule; from 5,000 pushes on, what must have been seen to pass and to be refused
// and was not fails the run.
package attack
