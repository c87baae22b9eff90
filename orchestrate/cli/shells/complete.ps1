# Completion of orchestrate for PowerShell. Load it with:
#   orchestrate completion powershell | Out-String | Invoke-Expression
# The last word is sent with a = before it, because PowerShell drops arguments that are empty.
Register-ArgumentCompleter -Native -CommandName orchestrate -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $program = $commandAst.CommandElements[0].ToString()
    $words = @($commandAst.CommandElements |
        Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { $_.ToString().Trim('"', "'") })
    & $program completion powershell -- @words "=$wordToComplete" 2>$null |
        Select-Object -Skip 1 |
        ForEach-Object {
            $value, $about = $_ -split "`t", 2
            if (-not $about) { $about = $value }
            $written = if ($value -match '[\s\[\]''"`$(){};&|<>]') { "'" + $value.Replace("'", "''") + "'" } else { $value }
            [System.Management.Automation.CompletionResult]::new($written, $value, 'ParameterValue', $about)
        }
}
