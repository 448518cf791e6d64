"""The door to the file system: what is durable, who owns it, how much fits, who has it open."""
