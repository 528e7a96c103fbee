#!/usr/bin/env node
'use strict'
// Runs the program of this name that the package of this platform holds. It
// shares the terminal, and gives signals and the exit code on.
const { spawn } = require('child_process')
const path = require('path')

const name = path.basename(__filename, '.js')
const platform = `${process.platform}-${process.arch}`
let program
try {
  program = require.resolve(`@rigward/${platform}/bin/${name}${process.platform === 'win32' ? '.exe' : ''}`)
} catch {
  console.error(`${name}: there is no program for ${platform}: the package @rigward/${platform} is not installed`)
  console.error('hint: npm install without --omit=optional, or take a release: https://github.com/rigward/rigward/releases')
  process.exit(2)
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (err) => {
  console.error(`${name}: ${err.message}`)
  process.exit(2)
})
child.on('exit', (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  } else process.exit(code)
})
