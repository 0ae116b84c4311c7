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
  await client?.stop();
  client = createClient();
  await client.start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("opgate.waive", waive),
    vscode.commands.registerCommand("opgate.restart", restart),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("opgate") && restart()),
  );
  await restart();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
