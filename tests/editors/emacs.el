;;; emacs.el --- A misspelt annotation of a bundle in Emacs with Eglot: shown, explained and repaired  -*- lexical-binding: t; -*-

;; emacs --batch -Q -l tests/editors/emacs.el WORKSPACE CONFIGURATION OPGATE

;;; Code:

;; Where Debian has Eglot for an Emacs without it.
(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa")
(package-initialize)

(defvar opgate-test-workspace (pop command-line-args-left))
(defvar opgate-test-configuration (pop command-line-args-left))
(defvar opgate-test-program (pop command-line-args-left))

(defun opgate-test-wait (what condition)
  "Wait until CONDITION holds; WHAT names it."
  (let ((end (+ (float-time) 30)) result)
    (while (and (not (setq result (funcall condition))) (< (float-time) end))
      (accept-process-output nil 0.05))
    (unless result
      (princ (format "emacs: %s failed\n" what) #'external-debugging-output)
      (kill-emacs 1))
    result))

(defun opgate-test-step (format-string &rest arguments)
  "Tell a step."
  (princ (concat "emacs: " (apply #'format format-string arguments) "\n")))

;; A stand-in for the mode of NonGNU ELPA.
(unless (fboundp 'yaml-mode)
  (define-derived-mode yaml-mode text-mode "YAML"))

(load (expand-file-name opgate-test-configuration) nil t)
(setq opgate-command (list opgate-test-program "lsp")
      eglot-sync-connect t
      eglot-confirm-server-initiated-edits nil
      eglot-send-changes-idle-time 0.01
      eglot-stay-out-of nil
      create-lockfiles nil
      make-backup-files nil)

(defun opgate-test-codes ()
  "Return the texts of the diagnostics of the buffer."
  (mapcar #'flymake-diagnostic-text (flymake-diagnostics)))

(find-file (concat opgate-test-workspace "/bundle/metadata/annotations.yaml"))
(yaml-mode)
(let ((original (buffer-string))
      (project-find-functions (list (lambda (_) (cons 'transient opgate-test-workspace)))))
  (apply #'eglot (eglot--guess-contact))
  (opgate-test-wait "start" #'eglot-managed-p)
  (opgate-test-step "started")
  (flymake-mode 1)
  (goto-char (point-min))
  (search-forward "channels.v1")
  (search-backward "nnels.v1")
  (delete-char 1)
  (eglot--signal-textDocument/didChange)
  (opgate-test-wait
   "diagnostic"
   (lambda ()
     (flymake-start)
     (cl-some (lambda (text) (string-match-p "bundle.channels.v1" text)) (opgate-test-codes))))
  (opgate-test-step "shown: %s" (car (opgate-test-codes)))
  (goto-char (point-min))
  (let* ((server (eglot-current-server))
         (hover (jsonrpc-request server :textDocument/hover (eglot--TextDocumentPositionParams)))
         (page (plist-get (plist-get hover :contents) :value)))
    (unless (string-match-p "Remediation" page)
      (kill-emacs 1))
    (opgate-test-step "explained in %d bytes" (length page))
    (let* ((diagnostics (cl-remove nil (mapcar (lambda (d) (alist-get 'eglot-lsp-diag (flymake-diagnostic-data d)))
                                               (flymake-diagnostics))))
           (actions (jsonrpc-request
                     server :textDocument/codeAction
                     (list :textDocument (eglot--TextDocumentIdentifier)
                           :range (list :start (eglot--pos-to-lsp-position (point-min))
                                        :end (eglot--pos-to-lsp-position (line-end-position)))
                           :context (list :diagnostics (vconcat diagnostics)))))
           (fix (seq-find (lambda (action) (string-prefix-p "rename the annotation" (plist-get action :title)))
                          actions)))
      (eglot--apply-workspace-edit (plist-get fix :edit))
      (opgate-test-wait "repair" (lambda () (string= (buffer-string) original)))
      (eglot--signal-textDocument/didChange)))
  (opgate-test-wait "no diagnostic" (lambda () (flymake-start) (null (opgate-test-codes))))
  (opgate-test-step "repaired: the buffer equals the original")
  (setq opgate-fix-on-save t)
  (goto-char (point-min))
  (search-forward "mediatype.v1")
  (delete-region (line-beginning-position) (line-beginning-position 2))
  (save-buffer)
  (unless (string-match-p "mediatype.v1: registry\\+v1" (buffer-string))
    (princ "emacs: fix on save failed\n" #'external-debugging-output)
    (kill-emacs 1))
  (opgate-test-step "repaired on save")
  (set-buffer-modified-p nil)
  (kill-emacs 0))
;;; emacs.el ends here
