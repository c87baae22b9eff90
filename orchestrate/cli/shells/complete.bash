# Completion of orchestrate for bash (3.2 and later). Load it with:
#   eval "$(orchestrate completion bash)"
# The words up to the cursor go to `orchestrate completion bash`, which answers with a kind (words,
# files or dirs: what may stand there besides) and a candidate a line, its description after a tab.
_orchestrate_complete() {
    local kind="" value about file
    COMPREPLY=()
    while IFS=$'\t' read -r value about; do
        if [ -z "$kind" ]; then
            kind="$value"
            [ "$kind" = words ] || compopt -o filenames 2>/dev/null
        elif [ "$kind" = words ]; then
            COMPREPLY+=("$(printf '%q' "$value")")
        else
            COMPREPLY+=("$value")
        fi
    done < <("$1" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case "$kind" in
        files) while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$2") ;;
        dirs) while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -d -- "$2") ;;
    esac
    compopt -o nosort 2>/dev/null
    return 0
}
complete -F _orchestrate_complete orchestrate
