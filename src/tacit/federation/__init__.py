"""Exchange of questions and answers between a coordinator and its nodes."""
