# Completes `cargo sqs-once WORDS` as `cargo-sqs-once WORDS`. Leaves everything else to the previous completion of cargo.
if [[ -z ${_cargo_before_sqs_once+set} ]]; then
    # bash-completion loads completions only when they are first needed.
    if ! complete -p cargo &>/dev/null && declare -F _completion_loader >/dev/null; then
        _completion_loader cargo &>/dev/null
    fi
    _cargo_before_sqs_once=$(complete -p cargo 2>/dev/null)
    if [[ $_cargo_before_sqs_once == *" -F "* ]]; then
        _cargo_before_sqs_once=${_cargo_before_sqs_once##* -F }
        _cargo_before_sqs_once=${_cargo_before_sqs_once%% *}
    else
        _cargo_before_sqs_once=
    fi
fi

_cargo_and_sqs_once() {
    if [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} == sqs-once ]]; then
        COMP_WORDS=(cargo-sqs-once "${COMP_WORDS[@]:2}")
        COMP_CWORD=$((COMP_CWORD - 1))
        _cargo_sqs_once cargo-sqs-once "$2" "$3"
    elif [[ -n $_cargo_before_sqs_once ]]; then
        "$_cargo_before_sqs_once" "$@"
    fi
}

complete -F _cargo_and_sqs_once -o bashdefault -o default cargo
