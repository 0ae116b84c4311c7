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

-- Makes all safe fixes of a file before it is written, if `vim.g.opgate_fix_on_save` is true.
local function fix_on_save(client, buffer)
  vim.api.nvim_create_autocmd('BufWritePre', {
    group = vim.api.nvim_create_augroup('opgate_fix_on_save_' .. buffer, {}),
    buffer = buffer,
    callback = function()
      if not vim.g.opgate_fix_on_save then
        return
      end
      local start = { line = 0, character = 0 }
      local response = client:request_sync('textDocument/codeAction', {
        textDocument = vim.lsp.util.make_text_document_params(buffer),
        range = { start = start, ['end'] = start },
        context = { diagnostics = {}, only = { 'source.fixAll.opgate' } },
      }, 2000, buffer)
      for _, action in ipairs(response and response.result or {}) do
        vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
      end
    end,
  })
end

return {
  on_attach = fix_on_save,
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
