// Package archtest holds tests of the house as a whole: which package may
// import which, and what only a main package may touch. It has no code of its
// own.
package archtest
