// Package doctest runs the commands of a Markdown document, so that a document
// shows what the programs say and nothing else.
//
// Three kinds of blocks count; all others are only read:
//
//   - ```console: a terminal. A line after "$ " is a command, a line after "> "
//     continues it, and what follows is its output, standard output and error
//     together. A command that fails has the last line "[exit N]".
//   - ```sh: commands without their output, which must succeed.
//   - a block of any other kind below a line that holds nothing but a path
//     between backquotes: the content of that file.
//
// All blocks of a text are run in order by one shell, so a directory that one
// changes to is the next one's.
package doctest
