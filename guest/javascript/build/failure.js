// An error in the user's directory: the command prints only its text.

export class Failure extends Error {}
