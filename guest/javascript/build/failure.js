// An error of the user's folder: its text is all that is printed.

export class Failure extends Error {}
