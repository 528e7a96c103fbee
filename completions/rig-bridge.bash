# bash completion of rig-bridge; made from its table of commands

_rig_bridge_threads() {
    local root
    root=$(git rev-parse --show-toplevel 2>/dev/null) || return
    (cd "$root" && for d in [a-z0-9]*/; do [ -d "$d" ] && printf '%s\n' "${d%/}"; done) 2>/dev/null
}

_rig_bridge() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "init new send close relay status thread read sync query validate --help --version" -- "$cur"))
        return
    fi
    case "$command $prev" in
        "init --rig-id") return ;;
        "init --display-name") return ;;
        "send --thread") COMPREPLY=($(compgen -W "$(_rig_bridge_threads)" -- "$cur")); return ;;
        "send --to") return ;;
        "send --in-reply-to") return ;;
        "send --status") return ;;
        "send --tldr") return ;;
        "send --body-file") COMPREPLY=($(compgen -f -- "$cur")); return ;;
        "send --ref") return ;;
        "close --status") COMPREPLY=($(compgen -W "completed cancelled" -- "$cur")); return ;;
        "close --note") return ;;
        "close --to") return ;;
        "relay --thread") COMPREPLY=($(compgen -W "$(_rig_bridge_threads)" -- "$cur")); return ;;
        "relay --in-reply-to") return ;;
        "relay --to") return ;;
        "relay --status") return ;;
        "relay --tldr") return ;;
        "relay --body-file") COMPREPLY=($(compgen -f -- "$cur")); return ;;
        "relay --ref") return ;;
        "status --to") return ;;
        "status --interval") return ;;
        "thread --format") COMPREPLY=($(compgen -W "text mermaid" -- "$cur")); return ;;
        "thread --interval") return ;;
        "read --at") return ;;
        "sync --interval") return ;;
        "query --to") return ;;
        "query --since") return ;;
        "query --limit") return ;;
    esac
    case "$command" in
        init)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--rig-id --display-name --force --no-hooks --json --no-color --help" -- "$cur"))
            fi ;;
        new)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--force --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "$(_rig_bridge_threads)" -- "$cur"))
            fi ;;
        send)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--thread --to --in-reply-to --status --tldr --body-file --ref --no-push --author-from-env --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "REQUEST HANDOFF RESPONSE ACK RESOLUTION STATE RESULT RECOVERY VERIFY DECISIONS" -- "$cur"))
            fi ;;
        close)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--status --note --to --no-push --author-from-env --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "$(_rig_bridge_threads)" -- "$cur"))
            fi ;;
        relay)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--thread --in-reply-to --to --status --tldr --body-file --ref --no-push --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "DECISIONS RESPONSE ACK" -- "$cur"))
            fi ;;
        status)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--wide --to --watch --interval --json --no-color --help" -- "$cur"))
            fi ;;
        thread)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--graph --format --allow-refused --watch --interval --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "$(_rig_bridge_threads)" -- "$cur"))
            fi ;;
        read)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--at --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "$(_rig_bridge_threads)" -- "$cur"))
            fi ;;
        sync)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--auto --check --watch --interval --json --no-color --help" -- "$cur"))
            fi ;;
        query)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--to --since --limit --sql --json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -W "turn open idle frozen diverged refused relays unverified message events" -- "$cur"))
            fi ;;
        validate)
            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "--json --no-color --help" -- "$cur"))
            else COMPREPLY=($(compgen -f -- "$cur"))
            fi ;;
    esac
}

complete -o filenames -F _rig_bridge rig-bridge
