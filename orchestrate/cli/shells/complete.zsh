#compdef orchestrate
# Completion of orchestrate for zsh. Load it after `compinit` with:
#   eval "$(orchestrate completion zsh)"
# or write it as `_orchestrate` into a folder of $fpath.
_orchestrate() {
    local -a lines described
    local kind line value about
    lines=("${(@f)$("${words[1]}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    kind="${lines[1]}"
    for line in "${(@)lines[2,-1]}"; do
        value="${line%%$'\t'*}"
        about="${line#*$'\t'}"
        [[ -n "$value" ]] && described+=("${${value//\\/\\\\}//:/\\:}:${about}")
    done
    (( ${#described} )) && _describe -V -t orchestrate orchestrate described
    case "$kind" in
        files) _files ;;
        dirs) _files -/ ;;
    esac
}
if [[ "${funcstack[1]}" == _orchestrate ]]; then
    _orchestrate "$@"
else
    compdef _orchestrate orchestrate
fi
