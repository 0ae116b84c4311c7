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

;; `yaml-mode' is in NonGNU ELPA; Emacs 29 has `yaml-ts-mode'.
(dolist (mode '(yaml-mode yaml-ts-mode js-json-mode json-mode json-ts-mode))
  (add-to-list 'eglot-server-programs (cons mode #'opgate-contact)))

(provide 'opgate)
;;; opgate.el ends here
