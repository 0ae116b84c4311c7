-- A misspelt annotation of a bundle in headless Neovim: shown, explained, repaired, and a rule waived.
-- nvim --headless --clean -u NONE -l tests/editors/neovim.lua WORKSPACE CONFIGURATION OPGATE

local workspace, configuration, opgate = unpack(arg)
local steps = {}

local function fail(text)
  io.stderr:write('neovim: ' .. text .. '\n')
  os.exit(1)
end

local function step(name)
  table.insert(steps, name)
  io.stdout:write('neovim: ' .. name .. '\n')
end

local function expect(what, value)
  if not value then
    fail(what .. ' failed after: ' .. table.concat(steps, ', '))
  end
  return value
end

local function wait(what, condition)
  expect(what, vim.wait(30000, condition, 20))
end

-- The configuration of the documentation, with the binary under test.
local config = dofile(configuration)
config.cmd = { opgate, 'lsp' }

local path = workspace .. '/bundle/metadata/annotations.yaml'
vim.cmd('filetype on')
vim.lsp.config('opgate', config)
vim.lsp.enable('opgate')
vim.cmd.edit(path)
local buffer = vim.api.nvim_get_current_buf()
wait('start', function()
  return #vim.lsp.get_clients({ bufnr = buffer, name = 'opgate' }) == 1
end)

local function diagnostics()
  return vim.diagnostic.get(buffer)
end

local function lines()
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
end

wait('clean bundle', function()
  local client = vim.lsp.get_clients({ bufnr = buffer })[1]
  return client.initialized and #diagnostics() == 0
end)
local original = lines()
step('the bundle is clean')

local function row_of(text)
  for index, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
    if line:find(text, 1, true) then
      return index - 1
    end
  end
end

-- As a user types: one character less.
local row = row_of('channels.v1')
local column = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1]:find('nnels.v1', 1, true) - 1
vim.api.nvim_buf_set_text(buffer, row, column, row, column + 1, {})
wait('diagnostic', function()
  local found = diagnostics()
  return #found == 1 and found[1].code == 'RBF-03'
end)
local found = diagnostics()[1]
expect('severity', found.severity == vim.diagnostic.severity.ERROR)
expect('message', found.message:find('bundle.channels.v1', 1, true))
step('shown: ' .. found.message)

local function request(method, parameters)
  local results = vim.lsp.buf_request_sync(buffer, method, parameters, 30000)
  for _, result in pairs(expect(method, results)) do
    expect(method .. ' ' .. vim.inspect(result.err), not result.err)
    return result.result
  end
end

vim.api.nvim_win_set_cursor(0, { found.lnum + 1, found.col })
local hover = request('textDocument/hover', vim.lsp.util.make_position_params(0, 'utf-16'))
expect('hover', hover.contents.value:find('Remediation', 1, true))
step('explained in ' .. #hover.contents.value .. ' bytes')

-- The action that a user chooses from the menu.
local function act(title)
  local is_offered = false
  vim.lsp.buf.code_action({
    apply = true,
    filter = function(action)
      local is_it = action.title:find(title, 1, true) ~= nil
      is_offered = is_offered or is_it
      return is_it
    end,
  })
  wait('action ' .. title, function()
    return is_offered
  end)
end

act('rename the annotation')
wait('repair', function()
  return lines() == original
end)
wait('no diagnostic', function()
  return #diagnostics() == 0
end)
step('repaired: the buffer equals the original')

-- A missing annotation with one meaning is added when the file is written.
vim.g.opgate_fix_on_save = true
local type_row = row_of('mediatype.v1')
vim.api.nvim_buf_set_lines(buffer, type_row, type_row + 1, false, {})
expect('removed', not lines():find('mediatype.v1', 1, true))
vim.cmd('write')
expect('fix on save', lines():find('mediatype.v1: registry+v1', 1, true))
vim.g.opgate_fix_on_save = false
wait('no diagnostic after the fix on save', function()
  return #diagnostics() == 0
end)
vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(original, '\n'))
step('repaired on save')

vim.api.nvim_buf_set_text(buffer, row, column, row, column + 1, {})
-- Not the one of the annotation that was removed before.
wait('diagnostic', function()
  local found = diagnostics()
  return #found == 1 and found[1].message:find('bundle.channels.v1', 1, true) ~= nil
end)
-- The answer to the prompt of the configuration.
vim.ui.input = function(options, answer)
  step('asked: ' .. options.prompt)
  answer('a catalog adds the channels')
end
act('Waive RBF-03')
local waivers = workspace .. '/bundle/.opgate.yaml'
wait('waiver', function()
  local other = vim.fn.bufnr(waivers)
  if other == -1 then
    return false
  end
  local text = table.concat(vim.api.nvim_buf_get_lines(other, 0, -1, false), '\n')
  return text:find('reason: "a catalog adds the channels"', 1, true) ~= nil
end)
vim.api.nvim_buf_call(vim.fn.bufnr(waivers), function()
  vim.cmd('write')
end)
wait('no diagnostic with a waiver', function()
  return #diagnostics() == 0
end)
step('waived with a reason')

local items = request('textDocument/completion', {
  textDocument = vim.lsp.util.make_text_document_params(buffer),
  position = { line = row, character = 20 },
})
expect('completion', #items.items > 5)
local symbols = request('textDocument/documentSymbol', { textDocument = vim.lsp.util.make_text_document_params(buffer) })
expect('symbols', symbols[1].name == 'annotations')
step('completed, with symbols')
os.exit(0)
