// Empty: the target that holds the precompiled headers of the test programs has to have a file.
