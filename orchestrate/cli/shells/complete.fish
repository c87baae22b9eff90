# Completion of orchestrate for fish. Load it with:
#   orchestrate completion fish | source
# or write it to ~/.config/fish/completions/orchestrate.fish.
function __orchestrate_complete
    set -l given (commandline -opc)
    set -l current (commandline -ct)
    set -l program $given[1]
    set -e given[1]
    set -l lines ($program completion fish -- $given "$current" 2>/dev/null)
    set -q lines[1]; or return
    set -l kind $lines[1]
    set -e lines[1]
    set -q lines[1]; and printf '%s\n' $lines
    switch $kind
        case files
            __fish_complete_path "$current"
        case dirs
            __fish_complete_directories "$current" ''
    end
end
complete -c orchestrate -f -k -a '(__orchestrate_complete)'
