"""Symphony: workers that hand their tasks to a service of IBM Spectrum Symphony."""
