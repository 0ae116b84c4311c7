-- Neovim 0.11 or later: copy this file to ~/.config/nvim/lsp/opgate.lua, and add `vim.lsp.enable('opgate')` to init.lua.
-- docs/editors.md has the details.

-- Asks for the reason of a waiver, and adds the waiver to .opgate.yaml.
local function waive(command, context)
  local waiver = command.arguments[1]
  vim.ui.input({ prompt = 'Reason to waive ' .. waiver.rule .. ': ' }, function(reason)
    if not reason or reason == '' then
      return
    end
    local client = vim.lsp.get_client_by_id(context.client_id)
    local parameters = {
      command = 'opgate.addWaiver',
      arguments = { { directory = waiver.directory, rule = waiver.rule, reason = reason } },
    }
    client.request('workspace/executeCommand', parameters, function(error)
      if error then
        vim.notify(error.message, vim.log.levels.ERROR)
      end
    end, context.bufnr)
  end)
end

return {
  cmd = { 'opgate', 'lsp' },
  filetypes = { 'yaml', 'json' },
  root_markers = { '.git' },
  init_options = {
    -- The commands below are here.
    askForReason = true,
    -- Whether policies from files run that opgate.yaml of the workspace names.
    trustWorkspace = false,
  },
  commands = { ['opgate.waive'] = waive },
}
