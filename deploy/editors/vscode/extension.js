// Starts `opgate lsp`, and asks for the reason of a waiver. Everything else is in the language server.

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function createClient() {
  const settings = vscode.workspace.getConfiguration("opgate");
  const command = settings.get("path") || "opgate";
  const run = { command, args: ["lsp"], transport: TransportKind.stdio };
  return new LanguageClient(
    "opgate",
    "opgate",
    { run, debug: run },
    {
      documentSelector: [
        { scheme: "file", language: "yaml" },
        { scheme: "file", language: "json" },
        { scheme: "file", pattern: "**/*.{yaml,yml,json}" },
      ],
      initializationOptions: {
        askForReason: true,
        config: settings.get("config") || "",
        trustWorkspace: vscode.workspace.isTrusted && settings.get("runWorkspacePolicies") === true,
      },
    },
  );
}

// The argument is that of the code action: directory, rule and message.
async function waive(waiver) {
  const reason = await vscode.window.showInputBox({
    title: `Waive ${waiver.rule}`,
    prompt: waiver.message,
    placeHolder: "Why the rule does not apply here",
    validateInput: (text) => (text.trim() ? undefined : "A waiver needs a reason"),
  });
  if (reason?.trim()) {
    const { directory, rule } = waiver;
    await client.sendRequest("workspace/executeCommand", {
      command: "opgate.addWaiver",
      arguments: [{ directory, rule, reason: reason.trim() }],
    });
  }
}

async function restart() {
  // Stopping a client that did not start is an error.
  await client?.stop().catch(() => {});
  client = createClient();
  try {
    await client.start();
  } catch (error) {
    const path = vscode.workspace.getConfiguration("opgate").get("path") || "opgate";
    const setting = "Open the setting";
    const message = `"${path} lsp" did not start: ${error.message ?? error}. Install opgate, or set opgate.path to its absolute path.`;
    if ((await vscode.window.showErrorMessage(message, setting)) === setting) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "opgate.path");
    }
  }
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("opgate.waive", waive),
    vscode.commands.registerCommand("opgate.restart", restart),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("opgate") && restart()),
  );
  // Not awaited: the message of a failure stays until it is closed.
  void restart();
}

async function deactivate() {
  await client?.stop().catch(() => {});
}

module.exports = { activate, deactivate };
