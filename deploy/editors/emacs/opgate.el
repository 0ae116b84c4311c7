;;; opgate.el --- The language server of opgate for Eglot  -*- lexical-binding: t; -*-

;; Emacs 29 or later, or Eglot from GNU ELPA: load this file in init.el, and use `M-x eglot' in a buffer with YAML or
;; JSON.  docs/editors.md has the details.

;;; Code:

(require 'eglot)

(defgroup opgate nil
  "The language server of opgate."
  :group 'tools)

(defcustom opgate-command '("opgate" "lsp")
  "Command that starts the language server."
  :type '(repeat string))

(defcustom opgate-trust-workspace nil
  "Whether policies from files run that opgate.yaml of the workspace names."
  :type 'boolean)

(defun opgate-contact (&optional _interactive)
  "Return the command of the language server, with its options."
  (append opgate-command
          (list :initializationOptions
                (list :trustWorkspace (if opgate-trust-workspace t :json-false)))))

(defcustom opgate-fix-on-save nil
  "Whether all safe fixes are made before a file is saved."
  :type 'boolean)

(defun opgate-fix-all ()
  "Make all fixes of violations in this file that need no review."
  (interactive)
  (let* ((start (list :line 0 :character 0))
         (actions (jsonrpc-request
                   (eglot--current-server-or-lose) :textDocument/codeAction
                   (list :textDocument (eglot--TextDocumentIdentifier)
                         :range (list :start start :end start)
                         :context (list :diagnostics [] :only ["source.fixAll.opgate"])))))
    (seq-doseq (action actions)
      (eglot--apply-workspace-edit (plist-get action :edit)))))

(defun opgate-fix-before-save ()
  "Make the safe fixes if `opgate-fix-on-save' says so.  An error of the server does not keep the file from being saved."
  (when (and opgate-fix-on-save (eglot-managed-p))
    (eglot--signal-textDocument/didChange)
    (with-demoted-errors "opgate: %S" (opgate-fix-all))))

(defun opgate-managed ()
  "Prepare a buffer with YAML or JSON that Eglot manages."
  (when (derived-mode-p 'yaml-mode 'yaml-ts-mode 'js-json-mode 'json-mode 'json-ts-mode)
    (add-hook 'before-save-hook #'opgate-fix-before-save nil t)))

(add-hook 'eglot-managed-mode-hook #'opgate-managed)

;; `yaml-mode' is in NonGNU ELPA; Emacs 29 has `yaml-ts-mode'.
(dolist (mode '(yaml-mode yaml-ts-mode js-json-mode json-mode json-ts-mode))
  (add-to-list 'eglot-server-programs (cons mode #'opgate-contact)))

(provide 'opgate)
;;; opgate.el ends here
