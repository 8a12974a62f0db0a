package nodefile

// Format is the number of the node file's format. It is raised when a key is
// renamed or removed, or gets another meaning; node files do not contain it.
const Format = 1
